"""The termination message of a container: the file it may write, or the end of its log."""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 4096
MAX_LOG_BYTES = 2048
MAX_LOG_LINES = 80


def termination_message(path: Path, log: Path | None, fall_back: bool) -> str:
    """Return the message file's content; the end of the log if that is allowed and the file is empty."""
    try:
        content = _tail(path, MAX_BYTES)
    except FileNotFoundError:
        content = b""
    except OSError as error:
        return f"Error on reading termination log {path}: {error}"
    if content or not fall_back or log is None:
        return content.decode(errors="replace")
    return _end_of_log(log)


def _tail(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - limit))
        # Bounded again: a process may append to the file between the two calls.
        return file.read(limit)


def _end_of_log(path: Path) -> str:
    """Return the last lines of a CRI log, without timestamps."""
    try:
        # More than is kept: timestamps and stream names are dropped below.
        lines = _tail(path, 4 * MAX_LOG_BYTES + 64 * MAX_LOG_LINES).split(b"\n")
    except OSError as error:
        return f"Error on reading termination message from logs: {error}"
    text = b""
    # One more: behind the last newline there is an empty line.
    for line in lines[-MAX_LOG_LINES - 1 :]:
        parts = line.split(b" ", 3)
        if len(parts) == 4:
            text += parts[3] + (b"\n" if parts[2].startswith(b"F") else b"")
    return text[-MAX_LOG_BYTES:].decode(errors="replace")
