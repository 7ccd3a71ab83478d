"""The last output of a machine: the end of its guest's serial log, or of QEMU's own log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tarmac.decide.rollup.termination import PANIC

_MAX_BYTES: Final = 2048
_MAX_LINE: Final = 512
_SEARCHED: Final = 64 * 1024
_LEFT_OUT: Final = "\n…\n"


def log_tail(path: Path, longest: int = _MAX_BYTES) -> str:
    """Return the end of a log, at most `longest` bytes."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - longest))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""


def panic_tail(serial: Path) -> str:
    """Return the end of a panicked guest's log, with the line that states the cause.

    A kernel prints that line first; the call traces after it may be longer than the limit.
    """
    words = log_tail(serial, _SEARCHED)
    kept = words[-_MAX_BYTES:]
    line = next((each for each in reversed(words.splitlines()) if PANIC in each), "").strip()[:_MAX_LINE]
    if not line or line in kept:
        return kept
    return line + _LEFT_OUT + kept[len(line) + len(_LEFT_OUT) :]
