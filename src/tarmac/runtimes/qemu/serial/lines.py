"""Converts bytes of a guest to lines of a container's log, in CRI's format: `<time> stdout F|P <content>`.

A line ends with LF; a CR before it is removed. A line longer than `MAX_LINE` is split into parts (P) of that length.
The conversion is stateless: progress is a number of bytes, which can be persisted for another process to continue.
"""

from __future__ import annotations

from typing import Literal

MAX_LINE = 16 * 1024
"""Maximum content of one line of the log, in bytes, as in container runtimes."""

Unfinished = Literal["wait", "part", "line"]
"""Handling of bytes without a line end: wait for it, write them as a part (P), or as a line (F)."""


def log_lines(data: bytes, time: str, unfinished: Unfinished) -> tuple[bytes, int]:
    """Return lines of the log, and the number of bytes of `data` they cover; pass the rest again with more data."""
    whole, part = f"{time} stdout F ".encode(), f"{time} stdout P ".encode()
    out: list[bytes] = []
    taken = 0
    while True:
        # A line of maximum length may be followed by CR and LF: look two bytes further before splitting it.
        end = data.find(b"\n", taken, taken + MAX_LINE + 2)
        content = data[taken:end].removesuffix(b"\r") if end >= 0 else b""
        if end >= 0 and len(content) <= MAX_LINE:
            out += (whole, content, b"\n")
            taken = end + 1
        elif len(data) - taken >= MAX_LINE + 2:
            out += (part, data[taken : taken + MAX_LINE], b"\n")
            taken += MAX_LINE
        else:
            break
    rest = data[taken:].removesuffix(b"\r")
    if unfinished == "wait":
        return b"".join(out), taken
    head = part if unfinished == "part" else whole
    if len(rest) > MAX_LINE:  # by one byte
        out += (part, rest[:MAX_LINE], b"\n")
    if rest:
        out += (head, rest[MAX_LINE:] if len(rest) > MAX_LINE else rest, b"\n")
    # A CR may be the first half of a line end: it waits for the LF, unless the input has ended.
    return b"".join(out), taken + len(rest) if unfinished == "part" else len(data)
