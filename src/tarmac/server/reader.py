"""Decoded, read-only views of stored objects for the server's own needs (authorization, admission, defaults).

Objects are decoded on demand; callers must not modify them. A few objects are read over and over (the namespace of a
write, its service account); they stay decoded until they change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.store.interface import Entry, Store

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_MAX_CACHED = 128
_MAX_LIST = 8  # objects: a longer list would evict everything else from the cache


def decode(entry: Entry) -> JsonObject:
    """Return the decoded object of an entry."""
    return _decode(entry.raw)


class Reader:
    """Reads the newest accepted state, so that a check sees writes that are not on disk yet."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._decoded: dict[tuple[str, str], tuple[Entry, JsonObject]] = {}

    def get(self, bucket: str, name: str) -> JsonObject | None:
        """Return one object, or None."""
        entry = self.store.head(bucket, name)
        return None if entry is None else self._read(bucket, entry)

    def _read(self, bucket: str, entry: Entry) -> JsonObject:
        known = self._decoded.get((bucket, entry.name))
        # By identity: a deleted and recreated object has a new entry, at any revision.
        if known is not None and known[0] is entry:
            return known[1]
        if len(self._decoded) >= _MAX_CACHED:
            self._decoded.clear()
        obj = decode(entry)
        self._decoded[bucket, entry.name] = (entry, obj)
        return obj

    def list(self, bucket: str, prefix: str = "") -> Iterator[JsonObject]:
        """Yield every object of a bucket whose name starts with `prefix` (`namespace/`)."""
        # The visible state, unlike `get`: pending writes are missing here, and callers that count add
        # `store.pending()`.
        entries = self.store.list(bucket, prefix).entries
        few = len(entries) <= _MAX_LIST
        for entry in entries:
            yield self._read(bucket, entry) if few else decode(entry)
