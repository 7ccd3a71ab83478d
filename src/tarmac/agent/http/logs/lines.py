"""Log lines in CRI format: `<RFC 3339 time> stdout|stderr F|P <content>`, with P for a line that continues.

`Formatter` converts them to the client's output: partial lines joined, timestamps prefixed or removed, lines too old or
of the wrong stream dropped, the result cut at the limit. Malformed lines are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.agent.http.logs.options import LogOptions
from tarmac.base.clock import parse_rfc3339

_NANOS = 9


def is_complete(line: bytes) -> bool:
    """Return True if a line of output ends with this line of the file."""
    parts = line.split(b" ", 3)
    return len(parts) < 3 or parts[2].partition(b":")[0] != b"P"


class Formatter:
    """Formatting state of one reader."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit
        self._begins = True  # the next line of the file starts a line of output

    @property
    def full(self) -> bool:
        """True once the byte limit is reached."""
        return self._left == 0

    def format(self, lines: Iterable[bytes]) -> bytes:
        """Convert lines of the file, without line ends, to the client's output."""
        out: list[bytes] = []
        for line in lines:
            parts = line.split(b" ", 3)
            if len(parts) == 4 and parts[1] in self._options.streams:
                self._add(parts[0], parts[2].partition(b":")[0] == b"P", parts[3], out)
        return self._cut(b"".join(out))

    def _add(self, time: bytes, partial: bool, content: bytes, out: list[bytes]) -> None:
        if self._options.since is not None and _is_before(time, self._options.since):
            return
        if self._options.timestamps and self._begins:
            out += (_fixed(time), b" ")
        out.append(content)
        if not partial:
            out.append(b"\n")
        self._begins = not partial

    def _cut(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        data = data[: self._left]
        self._left -= len(data)
        return data


def _is_before(time: bytes, since: float) -> bool:
    try:
        return parse_rfc3339(time.decode()) < since
    except (ValueError, UnicodeDecodeError):
        return True


def _fixed(time: bytes) -> bytes:
    """Pad the fraction to nine digits, so that timestamps align."""
    point = time.find(b".")
    zone = max(time.rfind(b"Z"), time.rfind(b"+"), time.rfind(b"-", 10))
    if zone < 0:
        return time
    digits = time[point + 1 : zone] if point >= 0 else b""
    return time[: point if point >= 0 else zone] + b"." + digits.ljust(_NANOS, b"0") + time[zone:]
