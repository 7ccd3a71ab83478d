"""Decoded, read-only views of stored objects for the server's own needs (authorization, admission, defaults).

Objects are decoded on demand and must not be changed by the caller. The same few (the namespace of a write, its service
account) are asked for over and over; they stay decoded until they change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.store.interface import Entry, Store

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_REMEMBERED = 128
_FEW = 8  # a longer list would drive everything else out of memory


def decode(entry: Entry) -> JsonObject:
    """The object behind an entry."""
    return _decode(entry.raw)


class Reader:
    """Reads the newest accepted state, so that a check sees writes that are still on their way to the disk."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._decoded: dict[tuple[str, str], tuple[Entry, JsonObject]] = {}

    def get(self, bucket: str, name: str) -> JsonObject | None:
        """One object, or None."""
        entry = self.store.head(bucket, name)
        return None if entry is None else self._read(bucket, entry)

    def _read(self, bucket: str, entry: Entry) -> JsonObject:
        known = self._decoded.get((bucket, entry.name))
        if known is not None and known[0] is entry:
            return known[1]
        if len(self._decoded) >= _REMEMBERED:
            self._decoded.clear()
        obj = decode(entry)
        self._decoded[bucket, entry.name] = (entry, obj)
        return obj

    def list(self, bucket: str, prefix: str = "") -> Iterator[JsonObject]:
        """Every object of a bucket whose name starts with `prefix` (`namespace/`)."""
        entries = self.store.list(bucket, prefix).entries
        few = len(entries) <= _FEW
        for entry in entries:
            yield self._read(bucket, entry) if few else decode(entry)
