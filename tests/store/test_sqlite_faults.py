"""The SQLite driver with failing disks, damaged files and a second server."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tarmac.store.interface import Damaged, Event, Store, Unavailable
from tarmac.store.sqlite import SqliteStore
from tarmac.store.sqlite.file import StoreFile
from tarmac.store.sqlite.format import FORMAT
from tests.store.conftest import SqlitePlace
from tests.store.objects import PODS, names, told, value


async def _fill_until_refused(store: Store, size: int) -> int:
    """Create objects until the disk is full; return how many fitted."""
    for number in range(10_000):
        [outcome] = await asyncio.gather(
            store.create(PODS, f"ns/{number:05}", value(size=size)), return_exceptions=True
        )
        if isinstance(outcome, Unavailable):
            assert "the disk is full" in str(outcome)
            return number
    raise AssertionError("the disk never filled up")


async def test_a_full_database_refuses_writes_and_recovers(sqlite_place: SqlitePlace) -> None:
    """Head and visible state are as before the rejected write."""
    store = sqlite_place.make()
    await store.start()
    sqlite_place.stores.append(store)
    events: list[Event] = []
    store.subscribe(PODS, events.extend)
    store._file._writer.execute("PRAGMA max_page_count = 60").fetchall()
    fitted = await _fill_until_refused(store, 3000)
    assert "the disk is full" in (store.checks()["store-disk"]() or "")
    revision = store.revision
    assert fitted > 10
    assert store.count(PODS) == len(events) == fitted
    assert store.head(PODS, f"ns/{fitted:05}") is None

    first = store.create(PODS, "ns/stacked", value(size=3000))
    head = store.head(PODS, "ns/stacked")
    assert head is not None
    second = store.update(PODS, "ns/stacked", value("two"), head.revision)
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert store.revision == revision

    store._file._writer.execute("PRAGMA max_page_count = 1000000").fetchall()
    entry = await store.create(PODS, "ns/later", value("later"))
    assert store.checks()["store-disk"]() is None
    assert entry.revision > head.revision, "head showed a revision that was then given out again"
    await sqlite_place.close(store)
    store = await sqlite_place.open()
    assert store.count(PODS) == fitted + 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"CANNOT MOUNT A SMALL DISK, so a really full one is not tested: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.root
async def test_a_full_disk_refuses_writes_and_recovers(small_disk: Path) -> None:
    """The same on a real file system without space, whose WAL cannot grow."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 2_400_000)
    store = SqliteStore(small_disk / "store.db")
    await store.start()
    fitted = await _fill_until_refused(store, 3000)
    assert store.checks()["store-disk"]() == f"the disk of {small_disk / 'store.db'} is full"
    ballast.unlink()
    entry = await store.create(PODS, "ns/later", value())
    await store.close()
    store = SqliteStore(small_disk / "store.db")
    await store.start()
    assert store.checks()["store-disk"]() is None
    assert store.count(PODS) == fitted + 1
    assert store.revision == entry.revision
    await store.close()


async def test_after_a_failed_sync_no_write_is_accepted(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's cache is unknown after a failed sync, so a retry could report success wrongly. Reads go on."""
    failing = False
    sync = StoreFile.sync

    def sometimes(file: StoreFile) -> None:
        if failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    monkeypatch.setattr(StoreFile, "sync", sometimes)
    store = await sqlite_place.open()
    events: list[Event] = []
    store.subscribe(PODS, events.extend)
    await store.create(PODS, "ns/a", value("one"))
    failing = True
    with pytest.raises(Unavailable, match=r"cannot sync .*Input/output error.*until the server is restarted"):
        await store.create(PODS, "ns/b", value("two"))
    failing = False
    with pytest.raises(Unavailable, match="until the server is restarted"):
        await store.create(PODS, "ns/c", value("three"))
    assert told(events) == [("ADDED", "ns/a", "one")]
    assert names(store.list(PODS).entries) == ["ns/a"]
    assert store.head(PODS, "ns/b") is None


async def test_the_wal_does_not_grow_under_constant_load(sqlite_place: SqlitePlace) -> None:
    """The WAL stays below a few times its limit with writers that never pause."""
    store = sqlite_place.make(wal_pages=64)
    await store.start()
    sqlite_place.stores.append(store)
    wal = Path(f"{sqlite_place.path}-wal")
    largest = 0

    async def write(writer: int) -> None:
        nonlocal largest
        for number in range(250):
            await store.create(PODS, f"{writer}/{number}", value(size=1200))
            largest = max(largest, wal.stat().st_size)

    await asyncio.gather(*(write(writer) for writer in range(16)))
    written = sqlite_place.path.stat().st_size
    assert written > 4_000_000, "checkpoints did not reach the database"
    assert largest < 1_500_000, f"the WAL reached {largest} bytes while {written} were written"


async def test_a_sync_finds_the_blocks_of_the_wal_in_place(sqlite_place: SqlitePlace) -> None:
    """No round moves its end, which a sync would have to write too."""
    store = sqlite_place.make(wal_pages=512)
    await store.start()
    sqlite_place.stores.append(store)
    wal = Path(f"{sqlite_place.path}-wal").stat
    at_start = wal().st_size
    assert at_start > 512 * 4096
    assert wal().st_blocks * 512 >= at_start, "holes would make a sync allocate blocks"
    for number in range(900):
        await store.create(PODS, f"ns/{number}", value(size=1200))
    assert sqlite_place.path.stat().st_size > 500_000, "the log was not restarted"
    assert wal().st_size == at_start


async def test_two_servers_cannot_open_one_file(sqlite_place: SqlitePlace) -> None:
    """The second server's error names the first; when the first has ended, the second may start."""
    first = await sqlite_place.open()
    with pytest.raises(Unavailable, match=rf"in use by another server \(process {os.getpid()}\)"):
        await sqlite_place.open()
    await first.create(PODS, "ns/a", value())
    await sqlite_place.close(first)
    assert names((await sqlite_place.open()).list(PODS).entries) == ["ns/a"]


async def test_a_newer_format_is_refused(sqlite_place: SqlitePlace) -> None:
    """The error names both versions."""
    await sqlite_place.close(await sqlite_place.open())
    with closing(sqlite3.connect(sqlite_place.path)) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(Unavailable, match=rf"format {FORMAT + 1}, tarmac \S+ knows up to {FORMAT}: install"):
        await sqlite_place.open()


async def test_another_programs_file_is_refused(sqlite_place: SqlitePlace) -> None:
    """The file is left unchanged."""
    with closing(sqlite3.connect(sqlite_place.path)) as db:
        db.execute("CREATE TABLE precious (data)")
    with pytest.raises(Unavailable, match="another program"):
        await sqlite_place.open()
    with closing(sqlite3.connect(sqlite_place.path)) as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("precious",)]


async def test_a_damaged_file_is_named(sqlite_place: SqlitePlace) -> None:
    """The file was never a database, or has a hole in the middle."""
    sqlite_place.path.write_bytes(b"not a database" * 1000)
    with pytest.raises(Damaged, match="is damaged: file is not a database; restore a backup"):
        await sqlite_place.open()
    sqlite_place.path.unlink()
    store = await sqlite_place.open()
    for number in range(50):
        await store.create(PODS, f"ns/{number}", value(size=2000))
    await sqlite_place.close(store)
    content = bytearray(sqlite_place.path.read_bytes())
    content[4096:20480] = os.urandom(16384)
    sqlite_place.path.write_bytes(content)
    with pytest.raises(Damaged, match="is damaged"):
        await sqlite_place.open()


async def test_the_file_is_private(sqlite_place: SqlitePlace) -> None:
    """Only its owner reads it, its log included."""
    store = await sqlite_place.open()
    await store.create(PODS, "ns/a", value())
    for suffix in ("", "-wal", ".lock"):
        assert Path(f"{sqlite_place.path}{suffix}").stat().st_mode & 0o077 == 0
