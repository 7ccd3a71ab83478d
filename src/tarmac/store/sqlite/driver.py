"""The driver: in-memory state in front of the log file.

A batch is written on the loop (page cache only), then a helper thread syncs it; it is published and acknowledged when
the sync has completed. Only one batch is in flight; the next one queues meanwhile.

Failures. When SQLite refuses a batch (a full disk, usually) it is rolled back, its writers get Unavailable, and the
next batch may succeed again. After a failed sync the kernel may have dropped the pages, and a repeated sync would
report success regardless: the store refuses writes from then on, and serves reads until it is restarted.

Damage on disk is detected at start, which then fails, when history is read from the file, and by a daily pass. It never
reaches a reader.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from sys import intern

import apsw

from tarmac.base.clock import Clock
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import Tasks
from tarmac.store.interface import (
    Damaged,
    Entry,
    Event,
    Observer,
    Sealer,
    Unavailable,
    splice,
    unsplice,
)
from tarmac.store.local import LocalStore, Write
from tarmac.store.sqlite.disk import lacks_room
from tarmac.store.sqlite.file import StoreFile
from tarmac.store.sqlite.health import DiskHealth
from tarmac.store.sqlite.sums import LogRow, row_sum
from tarmac.store.sqlite.syncing import Checkpointer, SyncThread
from tarmac.store.sqlite.verifying import Verifier

_log = log("store.sqlite")

_REPLAY_BATCH = 1024  # events per batch while the file is loaded
_TRIM_STEP = 256  # events dropped with one batch: more than most batches add, few enough not to be felt
_MARKER_SYNC_DELAY = 1.0  # a power cut leaves the marker behind by at most this
_FSYNC_ERRORS = {apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC}


class SqliteStore(LocalStore):
    """A store in one file. History is kept for `keep_seconds` or `keep_events`, the longer of the two."""

    def __init__(
        self,
        path: Path,
        *,
        sealer: Sealer | None = None,
        clock: Clock | None = None,
        observer: Observer | None = None,
        randomness: Randomness | None = None,
        keep_seconds: float = 300,
        keep_events: int = 10_000,
        wal_pages: int = 4096,
    ) -> None:
        super().__init__(clock=clock, observer=observer)
        self._path = path
        self._sealer = sealer
        self._randomness = randomness or Randomness()
        self._keep_seconds = keep_seconds
        self._keep_log = keep_events
        self._wal_pages = wal_pages
        self._next_trim = 0.0  # monotonic time before which no event is old enough
        self._syncing: list[Write] = []
        self._disk = DiskHealth(path, self._clock)
        self.verifier = Verifier(path, self._clock)
        self._tasks = Tasks()
        self._marking: TimerHandle | None = None
        self._file: StoreFile
        self._syncer: SyncThread
        self._side: ThreadPoolExecutor
        self._checkpointer: Checkpointer

    async def start(self) -> None:
        """Open the file, take the lock, load objects and recent history."""
        loop = asyncio.get_running_loop()
        self._side = ThreadPoolExecutor(1, thread_name_prefix="store-side")
        self._side.submit(int)  # starts the thread now: at the time of need the process may be unable to
        self._checkpointer = Checkpointer(loop, self._side, self._wal_pages)
        self._file = StoreFile(self._path, self._randomness.uuid)
        try:
            self._load()
            self._file.settle(self.revision, self._wal_pages, self._checkpointer.wal_has)
        except BaseException:
            self._file.close()
            raise
        self._syncer = SyncThread(loop, self._file.sync)
        self._tasks.begin(self.verifier.run(), "verification of the store")
        await super().start()

    async def close(self) -> None:
        """Complete accepted writes, close the file."""
        # In this order: the last batch needs the sync thread and perhaps a checkpoint in the side thread, and both work
        # on the file.
        await super().close()
        await self._tasks.close()
        if self._marking is not None:
            self._marking.cancel()
        await asyncio.to_thread(self._side.shutdown)
        self._syncer.close()
        self._file.close()

    def checks(self) -> dict[str, Callable[[], str | None]]:
        """Besides `store`: a full or slow disk, and damage on disk."""
        return {**super().checks(), "store-disk": self._disk.check, "store-integrity": lambda: self.verifier.damage}

    async def history(self, bucket: str, revision: int, prefix: str = "") -> Sequence[Event]:
        """Read from memory as far as it reaches, else from the file."""
        read = partial(self._loop.run_in_executor, self._side, self._read)
        try:
            return await self._joined_history(bucket, revision, prefix, read)
        except Damaged as error:
            self.verifier.found(str(error))
            raise

    async def compact(self, revision: int) -> None:
        """Drop history up to and including `revision`, in memory and in the file."""
        # Memory first: a reader must not be sent to the file for history that is being dropped there.
        self.forget(revision)
        while self._file.floor < revision:
            try:
                self._file.append((), min(revision, self._file.floor + _TRIM_STEP))
            except apsw.Error as error:
                raise Unavailable(f"cannot compact {self._path}: {error}") from error
            # One step at a time: more unsynced transactions than these two would look like damage.
            await self._loop.run_in_executor(self._side, self._file.sync)

    async def raise_floor(self, revision: int) -> None:
        """Raise the file's floor first: a process killed in between starts above it as well."""
        await self.compact(self.revision)
        if revision > self.revision:
            try:
                self._file.append((), revision)
            except apsw.Error as error:
                raise Unavailable(f"cannot write {self._path}: {error}") from error
            await self._loop.run_in_executor(self._side, self._file.sync)
        await super().raise_floor(revision)

    def _commit(self, batch: list[Write]) -> None:
        try:
            self._file.append(self._rows(batch), self._trim_to())
        except apsw.Error as error:
            self._rejected(batch, error)
            self._next_batch()
            return
        # The batch is in the file and can be lost by a power cut: no reader may see it before `_synced`. A process that
        # is killed here finds it at the next start, and syncs before it shows anything.
        self._syncing = batch
        self._disk.sync_started()
        self._syncer.request(self._synced)

    def _synced(self, error: OSError | None) -> None:
        batch, self._syncing = self._syncing, []
        took = self._disk.sync_ended()
        if self._observer is not None:
            self._observer("sync", took)
        if error is not None:
            # After a failed fsync the kernel may drop dirty pages and report the next sync as successful: nothing more
            # is acknowledged.
            self._stop_writing(f"cannot sync {self._path}: {error.strerror}")
            self._failed(batch, self._refusal or "")
            self._next_batch()
            return
        # Only after the sync: readers, watchers and the client's acknowledgement must not precede durability.
        self._committed(batch)
        if self._marking is None:
            self._marking = self._loop.call_later(_MARKER_SYNC_DELAY, self._sync_marker)
        self._checkpointer.between_batches(self._file.checkpoint, self._next_batch)

    def _sync_marker(self) -> None:
        self._marking = None
        self._side.submit(self._file.sync_marker)

    def _rejected(self, batch: list[Write], error: apsw.Error) -> None:
        if isinstance(error, apsw.NoMemError):
            end_if_out_of_memory(MemoryError())
        # The WAL index is a file as well; SQLite reports an I/O error when that cannot grow.
        full = isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and lacks_room(self._path.parent))
        why = f"cannot write {self._path}: {'the disk is full' if full else error}"
        _log.error("batch rejected", path=str(self._path), writes=len(batch), error=str(error))
        if getattr(error, "extendedresult", 0) in _FSYNC_ERRORS:
            self._stop_writing(why)
        self._disk.refused(why)
        self._failed(batch, why)

    def _stop_writing(self, why: str) -> None:
        self._refusal = f"{why}; no write is accepted until the server is restarted"
        _log.error("store is read-only until the server is restarted", reason=why)

    def _rows(self, batch: list[Write]) -> list[LogRow]:
        at = int(self._clock.now())
        seal = self._sealer.seal if self._sealer is not None else None
        rows: list[LogRow] = []
        for write in batch:
            event, value = write.event, write.value
            entry = event.entry
            if seal is not None and value is not None:
                value = seal(event.bucket, entry.name, value)
            previous = event.previous.revision if event.previous is not None else 0
            deleted = event.type == "DELETED"
            columns = (entry.revision, at, event.bucket, entry.name, entry.created, previous, deleted, value)
            rows.append(LogRow(*columns, row_sum(*columns)))
        return rows

    def _trim_to(self) -> int:
        """Return the revision up to which the file's history may be dropped now."""
        candidate = min(self._file.floor + _TRIM_STEP, self.revision - self._keep_log)
        if candidate < self._file.floor + _TRIM_STEP // 4 or self._clock.monotonic() < self._next_trim:
            return 0
        written = self._file.written_at(candidate)
        age = self._clock.now() - written if written is not None else self._keep_seconds
        if 0 <= age < self._keep_seconds:  # negative: the clock was set back, so the real age is unknown
            self._next_trim = self._clock.monotonic() + self._keep_seconds - age
            return 0
        return candidate

    def _load(self) -> None:
        """Load the file: rows up to the floor are the objects as of then; those above are the history since."""
        objects: dict[str, dict[str, Entry]] = {}
        self.load(objects, self._file.floor, self._replayed(objects))

    def _replayed(self, objects: dict[str, dict[str, Entry]]) -> Iterator[list[Event]]:
        """Fill `objects` from the file; yields the part of the history that memory keeps, in batches."""
        floor, events = self._file.floor, list[Event]()
        remembered = self._file.newest - self._keep_events
        for revision, _, bucket, name, created, _, deleted, blob, _ in self._file.load():
            bucket = intern(bucket)
            entries = objects.get(bucket)
            if entries is None:
                entries = objects[bucket] = {}
            previous = entries.get(name)
            name = intern(name) if previous is None else previous.name
            entry = self._entry(bucket, name, revision, revision if created == revision else created, blob, previous)
            if deleted:
                del entries[name]
            else:
                entries[name] = entry
            if revision > remembered and revision > floor:
                events.append(_event(bucket, entry, bool(deleted), previous))
                if len(events) == _REPLAY_BATCH:  # the window has a limit in bytes as well
                    yield events
                    events = []
            elif revision > floor:
                self.forgotten(bucket, revision)
        if events:
            yield events

    def _entry(
        self, bucket: str, name: str, revision: int, created: int, blob: bytes | None, previous: Entry | None
    ) -> Entry:
        if blob is None:
            if previous is None:
                raise Unavailable(f"{self._path} is damaged: revision {revision} deletes {bucket}/{name}, unknown")
            return Entry(name, revision, created, splice(unsplice(previous), revision))
        return Entry(name, revision, created, splice(self._open(bucket, name, blob), revision))

    def _open(self, bucket: str, name: str, blob: bytes) -> bytes:
        if self._sealer is None:
            return blob
        try:
            return self._sealer.open(bucket, name, blob)
        except ValueError as error:
            raise Unavailable(f"cannot decrypt {bucket}/{name} from {self._path}: {error}") from error

    def _read(self, bucket: str, after: int, until: int, prefix: str) -> list[Event]:
        """Read history from the file, in the side thread."""
        events: list[Event] = []
        try:
            rows = self._file.history(bucket, after, until, prefix)
        except apsw.Error as error:
            raise Unavailable(f"cannot read {self._path}: {error}") from error
        for row, old in rows:
            previous = None
            if old is not None:
                previous = self._entry(bucket, row.name, old.revision, row.created, old.value, None)
            entry = self._entry(bucket, row.name, row.revision, row.created, row.value, previous)
            events.append(_event(bucket, entry, bool(row.deleted), previous))
        return events


def _event(bucket: str, entry: Entry, deleted: bool, previous: Entry | None) -> Event:
    if deleted:
        return Event("DELETED", bucket, entry, previous)
    return Event("ADDED" if previous is None else "MODIFIED", bucket, entry, previous)
