"""Caches encoded lists until their resource changes.

The next event of its bucket drops an entry, so a list always shows every write that came before it. An entry is also
dropped by age: its resource version must stay one that a watch can start from. The cache is bounded in bytes and evicts
the least recently used response first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tarmac.base.clock import Clock
from tarmac.http.messages import Response
from tarmac.store.interface import Compacted, Event, Reads

_MAX_BYTES = 8 << 20

Key = tuple[object, ...]


class CachedAnswer(NamedTuple):
    """A finished response and the revision it shows."""

    response: Response
    revision: int
    max_age: float


class _Kept(NamedTuple):
    answer: CachedAnswer
    since: float
    size: int


class ListCache:
    """Cached responses by key, grouped by the bucket whose changes invalidate them."""

    def __init__(self, clock: Clock, max_bytes: int = _MAX_BYTES) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._keys: dict[str, set[Key]] = {}
        self._endings: dict[str, Callable[[], None]] = {}
        self._size = 0

    def get(self, bucket: str, key: Key) -> CachedAnswer | None:
        """Return the response unless it was invalidated or is too old."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if self._clock.monotonic() - kept.since > kept.answer.max_age:
            self._drop(bucket, key)
            return None
        self._kept.move_to_end(key)
        return kept.answer

    def put(self, source: Reads, bucket: str, key: Key, answer: CachedAnswer) -> None:
        """Cache a response about a bucket of `source`, unless the bucket changed while the response was rendered."""
        size = size_of(answer.response.body) + len(repr(key))  # the key holds the client's selectors
        # Rendering took several turns. An event during it preceded the subscription below, so only the store knows of
        # it.
        if size > self._max_bytes // 4 or _changed(source, bucket, answer.revision):
            return
        self._drop(bucket, key)
        self._kept[key] = _Kept(answer, self._clock.monotonic(), size)
        self._keys.setdefault(bucket, set()).add(key)
        self._size += size
        if bucket not in self._endings:
            self._endings[bucket] = source.subscribe(bucket, lambda events: self._invalidate(bucket, events))
        while self._size > self._max_bytes:
            oldest = next(iter(self._kept))
            self._drop(str(oldest[1]), oldest)  # the second part of a key is its bucket

    def _invalidate(self, bucket: str, _: Sequence[Event]) -> None:
        for key in tuple(self._keys.get(bucket, ())):
            self._drop(bucket, key)
        end = self._endings.pop(bucket, None)
        if end is not None:
            end()

    def _drop(self, bucket: str, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= kept.size
            self._keys[bucket].discard(key)


def _changed(source: Reads, bucket: str, revision: int) -> bool:
    if revision == source.revision:
        return False
    try:
        return bool(source.since(bucket, revision))
    except Compacted:
        return True


def size_of(body: bytes | list[bytes]) -> int:
    """Return the number of bytes in a body, whole or in pieces."""
    return len(body) if isinstance(body, bytes) else sum(map(len, body))
