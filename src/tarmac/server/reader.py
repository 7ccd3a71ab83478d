"""Decoded, read-only views of stored objects for the server's own needs (authorization, admission, defaults).

Objects are decoded on demand and must not be changed by the caller.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.store.interface import Entry, Store

_decode = msgspec.json.Decoder(dict).decode


def decode(entry: Entry) -> JsonObject:
    """The object behind an entry."""
    return _decode(entry.raw)


class Reader:
    """Reads the newest accepted state, so that a check sees writes that are still on their way to the disk."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def get(self, bucket: str, name: str) -> JsonObject | None:
        """One object, or None."""
        entry = self.store.head(bucket, name)
        return None if entry is None else decode(entry)

    def list(self, bucket: str, prefix: str = "") -> Iterator[JsonObject]:
        """Every object of a bucket whose name starts with `prefix` (`namespace/`)."""
        for entry in self.store.list(bucket, prefix).entries:
            yield decode(entry)
