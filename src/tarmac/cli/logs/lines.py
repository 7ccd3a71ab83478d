"""Lines of a log with their times, cut out of the bytes of a response.

Every line begins with its time, in RFC 3339. Times of one length in UTC sort as text does, so lines are ordered by
text. A line without an end is returned in parts of a mebibyte, so that its writer cannot fill the client's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from tarmac.base.clock import parse_rfc3339, rfc3339, rfc3339_micro

MAX_LINE: Final = 1 << 20
_NANOS: Final = 9
_LENGTH: Final = len("2026-11-15T12:00:00.123456789Z")


class LogSource(NamedTuple):
    """The origin of lines; its order is the order of lines with equal times."""

    city: str
    instance: str
    container: str
    namespace: str
    node: str = ""


class LogLine(NamedTuple):
    """One line. `key` sorts by time, and never decreases within a stream."""

    key: str
    time: str
    text: str


key_of: Final = attrgetter("key")


def sort_key(time: str) -> str:
    """Return a time in UTC with nine fraction digits. Raises ValueError."""
    if len(time) == _LENGTH and time[-1] == "Z" and time[19] == "." and time[10] == "T":
        return time
    seconds = parse_rfc3339(time)
    _, _, fraction = time.partition(".")
    digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))][:_NANOS].ljust(_NANOS, "0")
    # Whole seconds and digits apart: a float does not hold nanoseconds.
    return f"{rfc3339(seconds)[:-1]}.{digits}Z"


def earlier(key: str, seconds: float) -> str:
    """Return the key of an earlier time; the key itself if it is no time, which only a hostile node sends."""
    try:
        return sort_key(rfc3339_micro(max(0.0, parse_rfc3339(key) - seconds)))
    except (ValueError, OverflowError):
        return key


class LineCutter:
    """Cuts one response into lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._last = LogLine("", "", "")
        self._goes_on = False  # a part of the current line has been returned already

    def of(self, chunk: bytes) -> list[LogLine]:
        """Return the lines that end in this chunk."""
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size <= MAX_LINE and b"\n" not in chunk:
            return []
        whole, end, rest = b"".join(self._parts).rpartition(b"\n")
        found = self._whole(whole) if end else []
        while len(rest) > MAX_LINE:
            found.append(self._line(rest[:MAX_LINE].decode(errors="replace")))
            self._goes_on, rest = True, rest[MAX_LINE:]
        self._parts, self._size = [rest], len(rest)
        return found

    def rest(self) -> list[LogLine]:
        """Return the text after the last line end, once the log has ended."""
        raw = b"".join(self._parts)
        self._parts, self._size = [], 0
        return list(self._pieces(raw)) if raw else []

    def _whole(self, raw: bytes) -> list[LogLine]:
        """Parse complete lines, without the end of the last.

        Decoded at once: no UTF-8 character contains a newline byte.
        """
        if len(raw) <= MAX_LINE and not self._goes_on:
            return [self._line(text) for text in raw.decode(errors="replace").split("\n")]
        return [line for each in raw.split(b"\n") for line in self._pieces(each)]

    def _pieces(self, raw: bytes) -> Iterator[LogLine]:
        """Cut at fixed offsets, however the response was chunked: lines read again must be recognised."""
        for start in range(0, len(raw) or 1, MAX_LINE):
            yield self._line(raw[start : start + MAX_LINE].decode(errors="replace"))
            self._goes_on = True
        self._goes_on = False

    def _line(self, text: str) -> LogLine:
        if self._goes_on:
            return LogLine(self._last.key, self._last.time, text)
        time, _, rest = text.partition(" ")
        try:
            self._last = found = LogLine(sort_key(time), time, rest)
        except ValueError:  # a message of the node itself, which has no time
            self._last = found = LogLine(self._last.key, self._last.time, text)
        return found
