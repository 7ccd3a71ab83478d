"""Bytes of a guest as lines of a container's log, in CRI's format: `<time> stdout F|P <content>`.

A line ends with LF, and a CR before that is cut. One that is longer than `LONGEST` comes in parts (P) of that length.
Nothing is remembered from one call to the next: how far the log has come is a number of bytes and nothing else, so it
can be kept on disk and taken up again by another process.
"""

from __future__ import annotations

from typing import Literal

LONGEST = 16 * 1024
"""Bytes of content in one line of the log, as container runtimes have it."""

Unfinished = Literal["wait", "part", "line"]
"""What becomes of bytes without an end of line: they wait for it, become a part of a line, or count as a line."""


def log_lines(data: bytes, time: str, unfinished: Unfinished) -> tuple[bytes, int]:
    """Lines of the log, and how many bytes of `data` they stand for; the others are to be shown again with more."""
    whole, part = f"{time} stdout F ".encode(), f"{time} stdout P ".encode()
    out: list[bytes] = []
    taken = 0
    while True:
        # A line of the full length may have CR and LF behind it: so far must be seen before it is cut into parts.
        end = data.find(b"\n", taken, taken + LONGEST + 2)
        content = data[taken:end].removesuffix(b"\r") if end >= 0 else b""
        if end >= 0 and len(content) <= LONGEST:
            out += (whole, content, b"\n")
            taken = end + 1
        elif len(data) - taken >= LONGEST + 2:
            out += (part, data[taken : taken + LONGEST], b"\n")
            taken += LONGEST
        else:
            break
    rest = data[taken:].removesuffix(b"\r")
    if unfinished == "wait":
        return b"".join(out), taken
    head = part if unfinished == "part" else whole
    if len(rest) > LONGEST:  # by one
        out += (part, rest[:LONGEST], b"\n")
    if rest:
        out += (head, rest[LONGEST:] if len(rest) > LONGEST else rest, b"\n")
    # A CR may be the first half of an end of line: it waits for the other, unless nothing more can come.
    return b"".join(out), taken + len(rest) if unfinished == "part" else len(data)
