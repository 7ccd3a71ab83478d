"""A backup holds the objects of a store at one revision; any change to the file is detected and classified."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.server.security.keys.backupkeys import KeysChanged, WrongPassphrase, open_keys, seal_keys
from tarmac.store.backups.errors import BackupCutOff, BackupDamaged, BackupError, NotABackup
from tarmac.store.backups.file import BackupHead, BackupWriter, is_backup, read_backup
from tarmac.store.backups.storecopies import copy_sqlite, copy_store
from tarmac.store.interface import Damaged, Store, Unavailable
from tarmac.store.sqlite.marker import marker_path
from tarmac.store.sqlite.sums import LogRow, row_sum
from tests.store.conftest import EtcdPlace, Place, SqlitePlace
from tests.store.objects import PODS, SECRETS, value

CLOCK = SystemClock()


def _url(place: Place) -> str:
    if isinstance(place, SqlitePlace):
        return f"sqlite://{place.path}"
    assert isinstance(place, EtcdPlace)
    return f"etcd://{','.join(place.settings.endpoints)}?prefix={place.settings.prefix}&compact=0"


async def _back_up(place: Place, file: Path) -> tuple[BackupHead, list[LogRow]]:
    writer = BackupWriter(file, Randomness().uuid)
    revision = await copy_store(_url(place), CLOCK, writer.add)
    writer.finish("0.2.0", revision, 1_800_000_000, None, lambda _: {})
    return read_backup(file)


async def _filled(store: Store) -> None:
    for number in range(30):
        await store.create(PODS, f"ns/{number:02}", value(f"text-{number:02}", 400))
    await store.create(SECRETS, "ns/word", value("secret"))
    entry = store.get(PODS, "ns/05")
    assert entry is not None
    await store.update(PODS, "ns/05", value("newer"), entry.revision)
    gone = store.get(PODS, "ns/06")
    assert gone is not None
    await store.delete(PODS, "ns/06", gone.revision)


async def test_it_has_every_object_as_it_is_and_no_history(durable_place: Place, tmp_path: Path) -> None:
    """The store is open for writing meanwhile."""
    store = await durable_place.open()
    await _filled(store)
    head, rows = await _back_up(durable_place, tmp_path / "b")
    assert {name: each.objects for name, each in head.buckets.items()} == {PODS: 29, SECRETS: 1}
    assert head.revision == store.revision
    for row in rows:
        entry = store.get(row.bucket, row.name)
        assert entry is not None
        assert (row.revision, row.created) == (entry.revision, entry.created)
        assert row.value is not None
        assert b'"newer"' in row.value or row.name != "ns/05"


async def test_both_drivers_have_the_same_digests_for_the_same_objects(
    sqlite_place: SqlitePlace, etcd_place: EtcdPlace, tmp_path: Path
) -> None:
    for place in (sqlite_place, etcd_place):
        await _filled(await place.open())
    one, _ = await _back_up(sqlite_place, tmp_path / "one")
    two, _ = await _back_up(etcd_place, tmp_path / "two")
    assert one.buckets == two.buckets


async def test_writes_that_come_while_it_is_copied_are_in_it_or_not_but_nothing_is_torn(
    sqlite_place: SqlitePlace, tmp_path: Path
) -> None:
    """Two objects are always written one after the other: a copy never has the second without the first."""
    store = await sqlite_place.open()
    await store.create(PODS, "a", value("0"))
    await store.create(PODS, "b", value("0"))
    stop = asyncio.Event()

    async def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            for name in ("a", "b"):
                entry = store.get(PODS, name)
                assert entry is not None
                await store.update(PODS, name, value(str(number)), entry.revision)

    def copied() -> list[LogRow]:
        rows: list[LogRow] = []
        copy_sqlite(sqlite_place.path, rows.extend)
        return rows

    writing = asyncio.ensure_future(write())
    for _ in range(20):
        a, b = sorted(await asyncio.to_thread(copied), key=lambda row: row.name)
        first, second = (int((row.value or b"").split(b'"')[5]) for row in (a, b))
        assert first - second in (0, 1)
    stop.set()
    await writing


async def test_a_damaged_store_is_not_backed_up(sqlite_place: SqlitePlace, tmp_path: Path) -> None:
    store = await sqlite_place.open()
    await _filled(store)
    await sqlite_place.close(store)
    path = sqlite_place.path
    path.write_bytes(path.read_bytes().replace(b"text-17", b"text-18"))
    with pytest.raises(Damaged, match="core/pods ns/17"):
        await _back_up(sqlite_place, tmp_path / "b")


async def test_a_store_whose_newest_writes_are_missing_is_not_backed_up(
    sqlite_place: SqlitePlace, tmp_path: Path
) -> None:
    store = await sqlite_place.open()
    await _filled(store)
    await sqlite_place.close(store)
    old = sqlite_place.path.read_bytes()
    store = await sqlite_place.open()
    await store.create(PODS, "later", value())
    await sqlite_place.close(store)
    assert marker_path(sqlite_place.path).exists()
    sqlite_place.path.write_bytes(old)
    with pytest.raises(Damaged, match="had come to"):
        await _back_up(sqlite_place, tmp_path / "b")


async def test_where_there_is_no_store_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="there is no store"):
        copy_sqlite(tmp_path / "store.db", lambda _: None)
    assert not list(tmp_path.iterdir())


# checks of a file


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A small one."""
    writer = BackupWriter(tmp_path / "backup", Randomness().uuid)
    writer.add([_row(number) for number in range(2, 60)])
    writer.finish("0.2.0", 70, 1_800_000_000, None, lambda _: {})
    read_backup(tmp_path / "backup")
    return tmp_path / "backup"


def _row(revision: int, text: str = "") -> LogRow:
    columns = (revision, 0, PODS, f"ns/{revision:02}", revision, 0, 0, value(text or f"text-{revision:02}", 200))
    return LogRow(*columns, row_sum(*columns))


def test_a_file_that_is_cut_off_anywhere_is_said_to_be(backup: Path) -> None:
    content = backup.read_bytes()
    for length in (10, 99, 100, 4096, len(content) // 2, len(content) - 1):
        backup.write_bytes(content[:length])
        with pytest.raises(BackupCutOff, match="is cut off"):
            read_backup(backup)


def test_every_flipped_byte_that_matters_is_found(backup: Path) -> None:
    """Change one byte in each 97, one after the other: detected, or without meaning to SQLite."""
    content = backup.read_bytes()
    wanted = read_backup(backup)
    found = 0
    for at in range(0, len(content), 97):
        backup.write_bytes(content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :])
        try:
            assert read_backup(backup) == wanted, f"byte {at} changed something in silence"
        except BackupError:
            found += 1
    assert found > len(content) // 97 // 3, "free pages are few"


def test_a_row_that_somebody_changed_and_summed_anew_fails_its_digest(backup: Path) -> None:
    row, changed = _row(20), _row(20, "text-xx")
    with closing(sqlite3.connect(backup)) as db, db:
        db.execute("UPDATE log SET value = ?, sum = ? WHERE revision = 20", (changed.value, changed.sum))
        added = db.execute("SELECT added FROM total").fetchone()[0] + changed.sum - row.sum
        _write_total(db, added=added)
    with pytest.raises(BackupDamaged, match="not those that were backed up"):
        read_backup(backup)


def _write_total(db: sqlite3.Connection, **changes: int) -> None:
    from tarmac.store.sqlite.sums import Total

    total = Total(*db.execute("SELECT id, floor, rows, recent, added FROM total").fetchone())._replace(**changes)
    db.execute("UPDATE total SET added = ?, rows = ?, sum = ?", (total.added, total.rows, total.sum()))


def test_other_files_are_not_taken_for_backups(tmp_path: Path) -> None:
    other, text = tmp_path / "other.db", tmp_path / "text"
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE backup (x)")
    text.write_text("hello " * 100)
    for each in (other, text):
        assert not is_backup(each)
        with pytest.raises(NotABackup):
            read_backup(each)
    with pytest.raises(FileNotFoundError):
        read_backup(tmp_path / "absent")


async def test_a_store_is_no_backup(sqlite_place: SqlitePlace) -> None:
    store = await sqlite_place.open()
    await _filled(store)
    await sqlite_place.close(store)
    assert not is_backup(sqlite_place.path)


def test_a_wrong_passphrase_and_a_changed_file_are_told_apart() -> None:
    files = {"pki/ca.key": b"\x00key", "secrets.key": b"key1 abc\n"}
    sealed = seal_keys(files, b"correct horse", "digest", Randomness())
    assert b"key1" not in sealed
    assert open_keys(sealed, b"correct horse", "digest") == files
    with pytest.raises(WrongPassphrase):
        open_keys(sealed, b"wrong horse", "digest")
    with pytest.raises(KeysChanged):
        open_keys(sealed, b"correct horse", "digest of another file")
    with pytest.raises(KeysChanged):
        open_keys(sealed[:-1] + bytes([sealed[-1] ^ 1]), b"correct horse", "digest")
