"""The log of one container, over as many connections as it takes.

A broken connection is resumed by `sinceTime`, a second before the newest received line: runtimes write two streams into
one file, so a line may follow a slightly newer one. Repeated lines are recognised by time and text and skipped. The
container may have restarted in between; then the output of its previous run is in a separate log, which is read first.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from tarmac.api.status import BadRequest, NotFound
from tarmac.base.clock import rfc3339
from tarmac.cli.logs.lines import LineCutter, LogLine, LogSource, earlier, key_of, sort_key
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.requests import Query, refuse
from tarmac.client.targets.untyped import PODS

OVERLAP: Final = 1.0
"""Maximum deviation, in seconds, of a log's order from its times."""

MAX_RECENT: Final = 32 * 1024 * 1024
"""Characters that are kept to recognise repeated lines. A hostile node writes them all within the overlap."""

SILENCE_TIMEOUT: Final = 30.0
"""Seconds without any data until a log that is not followed counts as broken: the other logs wait for it."""


_COST: Final = 200  # of a line, whatever its length
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """The requested part of each log. `since` in seconds, `since_time` in RFC 3339."""

    follow: bool = False
    previous: bool = False
    tail: int | None = None
    since: float | None = None
    since_time: str = ""


class LogStream:
    """One log. `began`: the server has responded with it, even if it was empty."""

    def __init__(self, client: Client, source: LogSource, asked: Asked) -> None:
        self.source = source
        self.asked = asked
        self.began = False
        self._client = client
        self._path = PODS.path(source.namespace, source.instance, "log")
        self._opened = 0.0  # monotonic, of the first response
        self._since_opened = ""  # the server's time at the first response
        self._oldest = self._newest = ""
        self._recent: deque[LogLine] = deque()
        self._recent_size = 0

    async def read(self) -> AsyncIterator[list[LogLine]]:
        """Yield lines from the last position to the end of the log. Raises ApiError, ClientError."""
        since = earlier(self._newest, OVERLAP) if self._newest else ""
        repeats = _Repeats(since, self._recent)
        if self.began and not self.asked.previous:
            async with aclosing(self._last_life(since)) as lives:
                async for lines in lives:
                    if fresh := self._taken(repeats.left_out(lines, self._oldest)):
                        yield fresh
        async with aclosing(self._answer(self._query(since))) as answer:
            async for lines in answer:
                if fresh := self._taken(repeats.left_out(lines)):
                    yield fresh

    async def _last_life(self, since: str) -> AsyncGenerator[list[LogLine]]:
        query = {"container": self.source.container, "timestamps": True, "previous": True}
        try:
            async for lines in self._answer({**query, "sinceTime": since or self._since_opened}):
                yield lines
        except (BadRequest, NotFound):
            return  # there was no previous run

    async def _answer(self, query: Query) -> AsyncGenerator[list[LogLine]]:
        cutter = LineCutter()
        async with self._client.open(self._path, query) as reply:
            if reply.status >= 300:
                raise await refuse(reply)
            if not self.began:
                self.began, self._opened = True, self._client.clock.monotonic()
                self._since_opened = _date(reply.headers.get("date", "")) or rfc3339(self._client.clock.now())
                self._oldest = sort_key(self._since_opened)
            async for chunk in self._in_time(reply.chunks):
                if isinstance(chunk, bytes) and (lines := cutter.of(chunk)):
                    yield lines
        # Only after a complete response: the rest of a broken one is read again.
        if lines := cutter.rest():
            yield lines

    async def _in_time(self, chunks: AsyncIterator[T]) -> AsyncGenerator[T]:
        """Yield the chunks. Raises Disconnected if a log that is not followed falls silent."""
        while True:
            try:
                async with asyncio.timeout(None if self.asked.follow else SILENCE_TIMEOUT):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise Disconnected(f"no data for {SILENCE_TIMEOUT:g} seconds") from None
            yield chunk

    def _query(self, since: str) -> Query:
        asked = self.asked
        query: dict[str, str | int | bool | None] = {
            "container": self.source.container,
            "timestamps": True,
            "follow": asked.follow or None,
            "previous": asked.previous or None,
        }
        if since:
            return {**query, "sinceTime": since}
        if self.began and asked.tail == 0:
            return {**query, "sinceTime": self._since_opened}
        passed = self._client.clock.monotonic() - self._opened if self.began else 0.0
        return {
            **query,
            # A log without any last lines was empty, so from now on all of it is wanted.
            "tailLines": None if self.began else asked.tail,
            "sinceSeconds": None if asked.since is None else max(1, round(asked.since + passed)),
            "sinceTime": asked.since_time,
        }

    def _taken(self, lines: list[LogLine]) -> list[LogLine]:
        """Make keys non-decreasing, and keep lines for as long as they may be repeated."""
        if not lines:
            return lines
        if not self._newest and lines[0].key:
            self._oldest = min(self._oldest, lines[0].key)
        newest = self._newest
        for place, line in enumerate(lines):
            if line.key < newest:
                lines[place] = line._replace(key=newest)
            else:
                newest = line.key
        self._newest = newest
        begin = earlier(newest, OVERLAP) if newest else ""
        kept = lines[bisect_left(lines, begin, key=key_of) :]
        self._recent.extend(kept)
        self._recent_size += sum(map(_size, kept))
        while self._recent and (self._recent[0].key < begin or self._recent_size > MAX_RECENT):
            self._recent_size -= _size(self._recent.popleft())
        return lines


class _Repeats:
    """Recognises repeated lines at the beginning of a connection."""

    def __init__(self, since: str, recent: Iterable[LogLine]) -> None:
        self._since = since
        self._left = Counter((time, text) for key, time, text in recent if key >= since)

    def left_out(self, lines: list[LogLine], since: str = "") -> list[LogLine]:
        """Return the new lines. A server with whole-second precision begins earlier than requested."""
        since = max(since, self._since if self._left else "")
        return [line for line in lines if line.key >= since and not self._has_come(line)] if since else lines

    def _has_come(self, line: LogLine) -> bool:
        left = self._left.get((line.time, line.text), 0)
        if left > 1:
            self._left[line.time, line.text] = left - 1
        elif left:
            del self._left[line.time, line.text]
        return bool(left)


def _size(line: LogLine) -> int:
    return len(line.text) + _COST


def _date(text: str) -> str:
    """Convert the time of an HTTP header to RFC 3339; empty if invalid."""
    try:
        return rfc3339(parsedate_to_datetime(text).timestamp())
    except (OverflowError, TypeError, ValueError):
        return ""
