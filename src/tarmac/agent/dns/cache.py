"""Cache of upstream replies for their TTL; the oldest entries are evicted first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from tarmac.agent.dns.messages import NO_ERROR, NO_SUCH_NAME, Question, UpstreamReply
from tarmac.base.clock import Clock

MAX_ENTRIES: Final = 1000
MAX_TTL: Final = 300
MAX_NEGATIVE_TTL: Final = 30  # for names that do not exist: clients may be waiting for them to appear

Key = tuple[Question, bool]
"""The question, and True with EDNS."""


class CachedReply(NamedTuple):
    """A cached reply, and its age in seconds."""

    reply: UpstreamReply
    age: int


class DnsCache:
    """Bounded by count; the size of a reply is bounded by UDP."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[Key, tuple[float, UpstreamReply]] = OrderedDict()

    def get(self, key: Key) -> CachedReply | None:
        """Return an unexpired reply."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        age = int(self._clock.monotonic() - entry[0])
        if age >= _ttl(entry[1]):
            del self._entries[key]
            return None
        return CachedReply(entry[1], age)

    def put(self, key: Key, reply: UpstreamReply) -> None:
        """Cache a reply, if it is cacheable."""
        if not _ttl(reply) or reply.truncated:
            return
        self._entries[key] = (self._clock.monotonic(), reply)
        self._entries.move_to_end(key)
        if len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)


def _ttl(reply: UpstreamReply) -> int:
    if reply.code not in (NO_ERROR, NO_SUCH_NAME):
        return 0
    return min(reply.ttl, MAX_TTL if reply.code == NO_ERROR and reply.addresses else MAX_NEGATIVE_TTL)
