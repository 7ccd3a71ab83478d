"""Answers of others, for as long as they say they stay true; the oldest go when there are many."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from tarmac.agent.dns.messages import NO_ERROR, NO_SUCH_NAME, Question, UpstreamReply
from tarmac.base.clock import Clock

MOST: Final = 1000
LONGEST: Final = 300
LONGEST_NO: Final = 30  # for names that do not exist: people wait for them to appear

Key = tuple[Question, bool]
"""What was asked, and whether with EDNS."""


class Known(NamedTuple):
    """An answer, and how many seconds ago it was given."""

    reply: UpstreamReply
    age: int


class DnsCache:
    """Bounded by count; a packet is bounded by what UDP carries."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[Key, tuple[float, UpstreamReply]] = OrderedDict()

    def get(self, key: Key) -> Known | None:
        """An answer that is still true."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        age = int(self._clock.monotonic() - entry[0])
        if age >= _lasts(entry[1]):
            del self._entries[key]
            return None
        return Known(entry[1], age)

    def put(self, key: Key, reply: UpstreamReply) -> None:
        """Remember an answer, if it is one to remember."""
        if not _lasts(reply) or reply.truncated:
            return
        self._entries[key] = (self._clock.monotonic(), reply)
        self._entries.move_to_end(key)
        if len(self._entries) > MOST:
            self._entries.popitem(last=False)


def _lasts(reply: UpstreamReply) -> int:
    if reply.code not in (NO_ERROR, NO_SUCH_NAME):
        return 0
    return min(reply.ttl, LONGEST if reply.code == NO_ERROR and reply.addresses else LONGEST_NO)
