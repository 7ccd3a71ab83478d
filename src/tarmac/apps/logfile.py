"""The log file of a command in the foreground, bounded by one older file beside it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

MAX_SIZE = 16 * 1024 * 1024


class LogFile:
    """A stream for log lines. Where the file cannot be written, lines are dropped: logging must not stop a server."""

    def __init__(self, path: Path, most: int = MAX_SIZE) -> None:
        self._path = path
        self._most = most
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace")
        self._path.chmod(0o600)
        self._size = path.stat().st_size

    def write(self, s: str, /) -> int:
        """Write a line or a part of one."""
        if self._size > self._most and s != "\n":
            self._rotate()
        self._size += len(s)
        return self._file.write(s)

    def flush(self) -> None:
        """Write buffered lines. Raises OSError."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._file.close()

    def _rotate(self) -> None:
        with suppress(OSError):
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._file.close()
            self._file = self._path.open("a", encoding="utf-8", errors="backslashreplace")
            self._path.chmod(0o600)
        self._size = 0
