"""Data changed on the disk is detected, reported, and never served."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tarmac.base.clock import ManualClock
from tarmac.store.interface import Damaged, Unavailable
from tarmac.store.sqlite import SqliteStore
from tarmac.store.sqlite.marker import Marker, read_marker
from tarmac.store.sqlite.repairing import examine
from tarmac.store.sqlite.wal import FRAME
from tests.store.conftest import SqlitePlace
from tests.store.objects import PODS, text, value

WAYS_ON = "; restore a backup, or run `tarmac store repair --accept-loss`, which lists the losses"


async def _killed(place: SqlitePlace, folder: Path, writes: int = 30) -> Path:
    """Leave a store as kill -9 does, everything in its write-ahead log; return its path."""
    store = await place.open()
    for number in range(writes):
        await store.create(PODS, f"ns/{number:02}", value(f"text-{number:02}"))
    shutil.copytree(place.path.parent, folder, ignore=shutil.ignore_patterns("*-shm", "*.lock", folder.name))
    await place.close(store)
    return folder / "store.db"


async def _refusal(path: Path) -> str:
    with pytest.raises(Damaged) as refused:
        await SqliteStore(path, wal_pages=64).start()
    sentence = str(refused.value)
    assert sentence.startswith(f"{path} is damaged: ")
    assert sentence.endswith(WAYS_ON)
    return sentence.removeprefix(f"{path} is damaged: ").removesuffix(WAYS_ON)


def change(path: Path, before: bytes, after: bytes) -> None:
    """Replace bytes in a file that may be open: from another process, as closing it here would drop SQLite's locks."""
    program = "import sys; p, a, b = sys.argv[1:]; f = open(p, 'r+b'); c = f.read(); assert a.encode() in c; "
    program += "f.seek(0); f.write(c.replace(a.encode(), b.encode()))"
    subprocess.run([sys.executable, "-c", program, str(path), before.decode(), after.decode()], check=True)


async def test_a_flipped_bit_in_a_value_names_its_object(sqlite_place: SqlitePlace) -> None:
    """Among many, and nothing else."""
    store = await sqlite_place.open()
    for number in range(30):
        await store.create(PODS, f"ns/{number:02}", value(f"text-{number:02}"))
    await sqlite_place.close(store)
    change(sqlite_place.path, b"text-17", b"text-16")
    assert await _refusal(sqlite_place.path) == "core/pods ns/17 at revision 19: checksum mismatch"


async def test_a_sound_row_of_another_store_is_found(sqlite_place: SqlitePlace, tmp_path: Path) -> None:
    """The row's own checksum matches and the number of rows is right; only the total of all checksums differs."""
    await sqlite_place.close(await sqlite_place.open())
    donor = tmp_path / "donor"
    shutil.copytree(sqlite_place.path.parent, donor, ignore=shutil.ignore_patterns(donor.name))
    for path, content in ((sqlite_place.path, "ours"), (donor / "store.db", "theirs")):
        store = SqliteStore(path)
        await store.start()
        await store.create(PODS, "ns/a", value(content))
        await store.close()
    with closing(apsw.Connection(str(sqlite_place.path))) as db:
        db.execute("ATTACH ? AS donor", (str(donor / "store.db"),))
        db.execute("REPLACE INTO log SELECT * FROM donor.log WHERE name = 'ns/a'")
        assert db.changes() == 1
    assert await _refusal(sqlite_place.path) == "its rows do not add up to its total"


async def test_a_missing_log_is_missed(sqlite_place: SqlitePlace, tmp_path: Path) -> None:
    """The database alone is intact, but older than the acknowledged writes."""
    path = await _killed(sqlite_place, tmp_path / "killed")
    Path(f"{path}-wal").unlink()
    assert await _refusal(path) == "it ends at revision 1, but had come to 31: changes after 1 are missing"


async def test_a_missing_database_is_missed(sqlite_place: SqlitePlace, tmp_path: Path) -> None:
    """Removed, emptied, or with only its log left; the log is not touched."""
    path = await _killed(sqlite_place, tmp_path / "killed")
    log = Path(f"{path}-wal").read_bytes()
    path.unlink()
    assert await _refusal(path) == "it is missing, but had come to revision 31"
    assert not path.exists()
    path.touch()
    assert await _refusal(path) == "it is missing, but had come to revision 31"
    Path(f"{path}.marker").unlink()
    assert await _refusal(path) == f"it is missing, but {path}-wal is there"
    assert Path(f"{path}-wal").read_bytes() == log


async def test_a_missing_or_foreign_marker_is_missed(sqlite_place: SqlitePlace, tmp_path: Path) -> None:
    """The store cannot check without it that the log is complete."""
    path = await _killed(sqlite_place, tmp_path / "killed")
    marker = Path(f"{path}.marker")
    kept = marker.read_bytes()
    marker.unlink()
    assert await _refusal(path) == f"{marker} is missing, so the rest cannot be verified"
    marker.write_bytes(bytes(1024))
    assert await _refusal(path) == f"{marker} cannot be read"
    other = SqliteStore(tmp_path / "other.db")
    await other.start()
    await other.close()
    shutil.copy(tmp_path / "other.db.marker", marker)
    assert await _refusal(path) == f"{marker} belongs to another store"
    marker.write_bytes(kept)
    store = SqliteStore(path)
    await store.start()
    assert store.count(PODS) == 30
    await store.close()


async def test_a_refused_store_is_left_as_it_was(sqlite_place: SqlitePlace, tmp_path: Path) -> None:
    """A repair or an examination finds all files unchanged."""
    path = await _killed(sqlite_place, tmp_path / "killed")
    log = bytearray(Path(f"{path}-wal").read_bytes())
    log[32 + 20 * FRAME + 200] ^= 1
    Path(f"{path}-wal").write_bytes(log)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    await _refusal(path)
    assert {name: (path.parent / name).read_bytes() for name in before} == before


async def test_a_damaged_log_is_told_from_a_torn_one(sqlite_place: SqlitePlace, tmp_path: Path) -> None:
    """A power cut leaves such a marker; complete transactions beyond the damage prove that the log was durable."""
    path = await _killed(sqlite_place, tmp_path / "killed")
    mark, _ = read_marker(Path(f"{path}.marker"))
    assert mark is not None
    assert mark.revision == 31
    Path(f"{path}.marker").unlink()
    with closing(Marker(Path(f"{path}.marker"), mark.id)) as late:
        late.settle(1)
    whole = Path(f"{path}-wal").read_bytes()
    used = whole[: 32 + sum(1 for at in range(32, len(whole), FRAME) if any(whole[at : at + 24])) * FRAME]
    middle = bytearray(whole)
    middle[32 + 10 * FRAME + 2000] ^= 4
    Path(f"{path}-wal").write_bytes(middle)
    assert "is damaged in the middle" in await _refusal(path)
    header = bytearray(whole)
    header[17] ^= 4
    Path(f"{path}-wal").write_bytes(header)
    assert await _refusal(path) == f"the beginning of {path}-wal is damaged"
    Path(f"{path}-wal").write_bytes(bytes(32) + whole[32:])
    assert await _refusal(path) == f"{path}-wal has lost its beginning"
    torn = bytearray(whole)
    torn[len(used) - 1000] ^= 4  # of the last batch, which may never have been synced
    Path(f"{path}-wal").write_bytes(torn)
    store = SqliteStore(path)
    await store.start()
    assert store.count(PODS) == 29
    await store.close()


async def test_damage_under_a_running_store_is_found(tmp_path: Path) -> None:
    """Reads come from memory and stay right; reads of history from the disk fail, and so does the health check."""
    clock = ManualClock()
    store = SqliteStore(tmp_path / "store.db", clock=clock, wal_pages=16)
    await store.start()
    integrity = store.checks()["store-integrity"]
    for number in range(60):
        await store.create(PODS, f"ns/{number:02}", value(f"text-{number:02}", 500))
    store.forget(store.revision)  # as memory does after many writes
    store._compacted = 0
    await store.verifier.verify()
    assert integrity() is None
    change(tmp_path / "store.db", b"text-07", b"text-08")
    entry = store.get(PODS, "ns/07")
    assert entry is not None
    assert text(entry) == "text-07"
    with pytest.raises(Damaged, match="core/pods ns/07 at revision 9: checksum mismatch"):
        await store.history(PODS, 1)
    assert "ns/07" in (integrity() or "")
    await store.close()


async def test_the_daily_pass_runs_daily(tmp_path: Path) -> None:
    """The first pass runs a day after the start, which verified everything."""
    clock = ManualClock()
    store = SqliteStore(tmp_path / "store.db", clock=clock, wal_pages=16)
    await store.start()
    for number in range(60):
        await store.create(PODS, f"ns/{number:02}", value(f"text-{number:02}", 500))
    change(tmp_path / "store.db", b"text-07", b"text-87")
    started = store.verifier.verified_at
    while store.verifier.verified_at == started:
        clock.advance(3600)
        await asyncio.sleep(0.001)
    assert store.verifier.verified_at - started >= 24 * 3600
    assert "core/pods ns/07 at revision 9" in (store.checks()["store-integrity"]() or "")
    await store.create(PODS, "ns/later", value("later"))
    change(tmp_path / "store.db", b"text-87", b"text-07")
    await store.verifier.verify()
    assert store.checks()["store-integrity"]() is None
    await store.close()


async def test_a_store_that_is_open_elsewhere_is_not_repaired(sqlite_place: SqlitePlace) -> None:
    """The server that uses it is named."""
    await sqlite_place.open()
    with pytest.raises(Unavailable, match=rf"in use by another server \(process {os.getpid()}\)"):
        examine(sqlite_place.path, lambda: "id")
