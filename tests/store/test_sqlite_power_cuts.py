"""Power cuts: any part of the writes since a file's last sync may be missing. Acknowledged writes never are.

SQLite runs on a virtual file system that records every write and sync. At random moments the test builds the disk as it
could look after a power cut (everything synced, and of the rest an arbitrary part) and opens it again.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tarmac.store.interface import Entry
from tarmac.store.sqlite import SqliteStore
from tarmac.store.sqlite.file import StoreFile
from tarmac.store.sqlite.marker import Marker
from tests.store.objects import PODS, value

Moment = dict[str, tuple[int, int]]
"""By file: the number of operations, and how many of them were synced."""


class Disk:
    """The operations on each file, in order, and the number of them that are durable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._operations: dict[str, list[tuple[int, bytes | None]]] = {}  # offset and data; None truncates
        self._synced: dict[str, int] = {}

    def write(self, file: str, offset: int, data: bytes | None) -> None:
        """Write into the page cache."""
        with self._lock:
            self._operations.setdefault(file, []).append((offset, data))

    def delete(self, file: str) -> None:
        """Delete for good: cuts come after opening, which syncs the directory."""
        with self._lock:
            self._operations.pop(file, None)

    def mark(self, file: str) -> int:
        """Return the number of operations that a sync started now will cover."""
        with self._lock:
            return len(self._operations.get(file, ()))

    def synced(self, file: str, mark: int) -> None:
        """Record that this sync is done."""
        with self._lock:
            self._synced[file] = max(mark, self._synced.get(file, 0))

    def now(self) -> Moment:
        """Return the state at a power cut now."""
        with self._lock:
            return {file: (len(done), self._synced.get(file, 0)) for file, done in self._operations.items()}

    def put_together(self, moment: Moment, folder: Path, dice: random.Random) -> Path:
        """Write the disk as it may look after the cut; return the path of the database."""
        keep = dice.random()
        for file, (done, synced) in moment.items():
            content = bytearray()
            for number, (offset, data) in enumerate(self._operations[file][:done]):
                if number >= synced and dice.random() > keep:
                    continue
                if data is None:
                    del content[offset:]
                else:
                    content.extend(bytes(max(0, offset - len(content))))
                    content[offset : offset + len(data)] = data
            (folder / Path(file).name).write_bytes(content)
        return folder / "store.db"


class RecordingFile(apsw.VFSFile):
    """A file that records its writes and syncs."""

    def __init__(self, disk: Disk, name: str, filename: apsw.URIFilename | str | None, flags: list[int]) -> None:
        super().__init__("unix", filename, flags)
        self._disk = disk
        self._name = name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.write(self._name, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.write(self._name, newsize, None)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        mark = self._disk.mark(self._name)
        super().xSync(flags)
        self._disk.synced(self._name, mark)


class RecordingDisk(apsw.VFS):
    """SQLite's default file system for the length of a test."""

    def __init__(self, disk: Disk) -> None:
        super().__init__("recording", "unix", makedefault=True)
        self._disk = disk

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> RecordingFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        return RecordingFile(self._disk, path, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._disk.delete(filename)


def _record_marker(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    write, sync = Marker.write, Marker.sync

    def recorded_write(marker: Marker, revision: int) -> None:
        offset = marker._turn * 512
        write(marker, revision)
        disk.write(_name(marker), offset, os.pread(marker._file, 512, offset))

    def recorded_sync(marker: Marker) -> None:
        mark = disk.mark(_name(marker))
        sync(marker)
        disk.synced(_name(marker), mark)

    monkeypatch.setattr(Marker, "write", recorded_write)
    monkeypatch.setattr(Marker, "sync", recorded_sync)


def _name(marker: Marker) -> str:
    return os.readlink(f"/proc/self/fd/{marker._file}")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Record, including the driver's own sync of the WAL and its marker."""
    disk = Disk()
    vfs = RecordingDisk(disk)
    sync = StoreFile.sync

    def recorded(file: StoreFile) -> None:
        mark = disk.mark(f"{file.path}-wal")
        sync(file)
        disk.synced(f"{file.path}-wal", mark)

    monkeypatch.setattr(StoreFile, "sync", recorded)
    _record_marker(disk, monkeypatch)
    yield disk
    vfs.unregister()


async def _write(store: SqliteStore, writer: int, acknowledged: list[Entry], dice: random.Random) -> None:
    for number in range(60):
        name = f"{writer}/{dice.randrange(6)}"
        head = store.head(PODS, name)
        content = value(f"{writer}-{number}", dice.randrange(3000))
        if head is None:
            acknowledged.append(await store.create(PODS, name, content))
        elif number % 4:
            acknowledged.append(await store.update(PODS, name, content, head.revision))
        else:
            acknowledged.append(await store.delete(PODS, name, head.revision, content))


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_acknowledged_is_lost_by_a_power_cut(disk: Disk, tmp_path: Path, seed: int) -> None:
    """Many cuts of one run with checkpoints."""
    dice = random.Random(seed)
    store = SqliteStore(tmp_path / "store.db", wal_pages=24)
    await store.start()
    acknowledged: list[Entry] = []
    cuts: list[tuple[Moment, int]] = []
    writing = asyncio.gather(*(_write(store, writer, acknowledged, dice) for writer in range(4)))
    while not writing.done():
        count = len(acknowledged)  # before the cut: these must be there
        cuts.append((disk.now(), count))
        await asyncio.sleep(dice.random() * 0.001)
    await writing
    assert len(cuts) > 15
    assert disk.now()[str(tmp_path / "store.db")][0] > 50, "no checkpoint was among it"
    for number, (moment, count) in enumerate(dice.sample(cuts, 15)):
        folder = tmp_path / f"cut-{number}"
        folder.mkdir()
        again = SqliteStore(disk.put_together(moment, folder, dice))
        await again.start()
        history = {event.entry.revision: event.entry.raw for event in await again.history(PODS, 1)}
        assert list(history) == list(range(2, again.revision + 1))
        assert [history.get(e.revision) for e in acknowledged[:count]] == [e.raw for e in acknowledged[:count]]
        await again.close()
    await store.close()
