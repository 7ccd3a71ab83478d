"""The audit log's file: written by its own thread, rotated by size.

Writing never blocks a request and never stops the server. On write errors, lines are counted, reported in the log and
dropped; a partially written batch is truncated again.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tarmac.base.log import log

_log = log("audit")


class AuditFile:
    """One log file and its rotated predecessors (`audit.log.1` is the newest)."""

    def __init__(self, path: Path, largest: int, backups: int = 5) -> None:
        self._path = path
        self._largest = largest
        self._backups = backups
        self._thread = ThreadPoolExecutor(1, "audit")
        self._descriptor = self._open()
        self._writing: Future[None] | None = None
        self._failing = False
        self.dropped = 0  # lines that were not written

    @property
    def busy(self) -> bool:
        """True while a write is in progress."""
        return self._writing is not None and not self._writing.done()

    def write(self, data: bytes) -> None:
        """Queue whole lines for appending."""
        self._writing = self._thread.submit(self._append, data)

    def close(self) -> None:
        """Finish pending writes and close the file."""
        # Waits for the queued write: the descriptor must stay open until then.
        self._thread.shutdown()
        os.close(self._descriptor)

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _append(self, data: bytes) -> None:
        try:
            # Asked of the descriptor: an operator may have truncated the file, or logrotate may have moved it away.
            size = os.fstat(self._descriptor).st_size
            if size and size + len(data) > self._largest:
                self._rotate()
                size = 0
            self._write_all(data, size)
            self._failing = False
        except OSError as error:
            self.dropped += data.count(b"\n")
            if not self._failing:
                _log.warning("audit log cannot be written, dropping lines", path=str(self._path), error=str(error))
            self._failing = True

    def _write_all(self, data: bytes, size: int) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            # A part of a line would make the rest of the file unreadable for its readers, line by line.
            # A kill before this line leaves a part of a line at the end; with O_APPEND the next line continues it.
            os.ftruncate(self._descriptor, size)
            raise

    def _rotate(self) -> None:
        # From the oldest: the other order would overwrite each backup by the next newer one.
        for number in range(self._backups - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{number + 1}"))
        # After the older ones have moved; the descriptor still writes to the renamed file until it is replaced below.
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        os.close(self._descriptor)
        self._descriptor = self._open()
