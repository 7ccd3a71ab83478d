"""The two helper threads of the SQLite driver, seen from the loop.

`SyncThread` does one thing, an fdatasync for every batch, with as little hand-over as possible. `Checkpointer` keeps
the WAL from growing: when it passes a size, a first checkpoint runs in the side thread while writing continues, which
copies nearly everything; a second one then runs while the writer is paused between two batches, and copies only the
pages written meanwhile. After it the whole WAL is copied, and the next commit restarts it. Without the second step a
busy writer would always be ahead of the checkpoint, and the WAL would grow for as long as it is busy.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread
from typing import Literal

from tarmac.base.log import log

_log = log("store.sqlite")


class SyncThread:
    """Runs `sync` on request and reports back on the loop."""

    def __init__(self, loop: AbstractEventLoop, sync: Callable[[], None]) -> None:
        self._loop = loop
        self._sync = sync
        self._requests: SimpleQueue[Callable[[OSError | None], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="store-sync", daemon=True)
        self._thread.start()

    def request(self, done: Callable[[OSError | None], None]) -> None:
        """Sync once, then call `done` with the error, if any."""
        self._requests.put(done)

    def close(self) -> None:
        """End the thread."""
        self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (done := self._requests.get()) is not None:
            failure = None
            try:
                self._sync()
            except OSError as error:
                failure = error
            # The loop still runs: the store's `close` waits for the batch in flight before this thread is ended.
            self._loop.call_soon_threadsafe(done, failure)


class Checkpointer:
    """Decides when to checkpoint, and when to pause the writer for it."""

    def __init__(self, loop: AbstractEventLoop, side: ThreadPoolExecutor, wal_pages: int) -> None:
        self._loop = loop
        self._side = side
        self._limit = self._threshold = wal_pages
        self._pages = 0
        self._phase: Literal["idle", "copying", "hold wanted", "held"] = "idle"

    def wal_has(self, pages: int) -> None:
        """Record the size of the WAL; SQLite calls this after each commit."""
        if pages < self._pages:  # it was restarted
            self._threshold = self._limit
        self._pages = pages

    def between_batches(self, checkpoint: Callable[[], tuple[int, int]], go_on: Callable[[], None]) -> None:
        """Start a checkpoint if one is due, and call `go_on` when the writer may continue."""
        if self._phase == "hold wanted":
            self._phase = "held"
            held = self._loop.run_in_executor(self._side, checkpoint)
            held.add_done_callback(lambda done: (self._checkpointed(done), go_on()))
            return
        if self._phase == "idle" and self._pages >= self._threshold:
            self._phase = "copying"
            self._loop.run_in_executor(self._side, checkpoint).add_done_callback(self._checkpointed)
        go_on()

    def _checkpointed(self, done: Future[tuple[int, int]]) -> None:
        error = None if done.cancelled() else done.exception()
        copied = done.result()[1] if error is None and not done.cancelled() else -1
        if copied >= self._pages:  # the next commit restarts the WAL
            self._phase = "idle"
        elif self._phase == "copying" and error is None:
            self._phase = "hold wanted"
        else:  # a full disk, or a reader blocked it: retry when there is clearly more to copy
            self._phase = "idle"
            self._threshold = self._pages + self._limit
            _log.warning("checkpoint incomplete", wal_pages=self._pages, copied=copied, error=str(error or ""))
