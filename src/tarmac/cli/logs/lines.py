"""Lines of a log with their times, cut out of the bytes of an answer.

Every line begins with its time, in RFC 3339. Times of one length in UTC sort as text does, so that is what lines are
ordered by. A line without an end is given out in pieces of a mebibyte: whoever writes it cannot fill our memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from tarmac.base.clock import parse_rfc3339, rfc3339, rfc3339_micro

LONGEST: Final = 1 << 20
_NANOS: Final = 9
_LENGTH: Final = len("2026-11-15T12:00:00.123456789Z")


class Source(NamedTuple):
    """Where lines come from, in the order in which those of one moment are shown."""

    city: str
    instance: str
    container: str
    namespace: str
    node: str = ""


class Line(NamedTuple):
    """One of them. `key` sorts as time does, and never goes back within a stream."""

    key: str
    time: str
    text: str


key_of: Final = attrgetter("key")


def sort_key(time: str) -> str:
    """A time in UTC with nine digits behind the point. Raises ValueError."""
    if len(time) == _LENGTH and time[-1] == "Z" and time[19] == "." and time[10] == "T":
        return time
    seconds = parse_rfc3339(time)
    _, _, fraction = time.partition(".")
    digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))][:_NANOS].ljust(_NANOS, "0")
    # Whole seconds and digits apart: a float does not hold nanoseconds.
    return f"{rfc3339(seconds)[:-1]}.{digits}Z"


def earlier(key: str, seconds: float) -> str:
    """The key of a moment before."""
    return sort_key(rfc3339_micro(max(0.0, parse_rfc3339(key) - seconds)))


class LineCutter:
    """Cuts one answer into lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._last = Line("", "", "")
        self._goes_on = False  # a piece of the line that comes next is out already

    def of(self, chunk: bytes) -> list[Line]:
        """The lines that end in this chunk."""
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size <= LONGEST and b"\n" not in chunk:
            return []
        whole, end, rest = b"".join(self._parts).rpartition(b"\n")
        found = self._whole(whole) if end else []
        while len(rest) > LONGEST:
            found.append(self._line(rest[:LONGEST].decode(errors="replace")))
            self._goes_on, rest = True, rest[LONGEST:]
        self._parts, self._size = [rest], len(rest)
        return found

    def rest(self) -> list[Line]:
        """What stands behind the last end of a line, once the log is over."""
        raw = b"".join(self._parts)
        self._parts, self._size = [], 0
        return list(self._pieces(raw)) if raw else []

    def _whole(self, raw: bytes) -> list[Line]:
        """Lines without the end of the last. Decoded at once: no character holds the byte that ends lines."""
        if len(raw) <= LONGEST and not self._goes_on:
            return [self._line(text) for text in raw.decode(errors="replace").split("\n")]
        return [line for each in raw.split(b"\n") for line in self._pieces(each)]

    def _pieces(self, raw: bytes) -> Iterator[Line]:
        """Cut at the same bytes however the answer was cut: what is read again must be recognised."""
        for start in range(0, len(raw) or 1, LONGEST):
            yield self._line(raw[start : start + LONGEST].decode(errors="replace"))
            self._goes_on = True
        self._goes_on = False

    def _line(self, text: str) -> Line:
        if self._goes_on:
            return Line(self._last.key, self._last.time, text)
        time, _, rest = text.partition(" ")
        try:
            self._last = found = Line(sort_key(time), time, rest)
        except ValueError:  # a word of the node itself, which has no time
            self._last = found = Line(self._last.key, self._last.time, text)
        return found
