"""Read-your-writes view of an informer cache.

Objects returned by our own writes take precedence until the watch delivers the same or a newer version. A decision over
many objects (free addresses, free numbers) needs this: with the plain cache it could assign the same one twice, since
the last write may not have come back yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from tarmac.api.shared import Kind
from tarmac.client.cache import Item
from tarmac.client.envelope import is_newer
from tarmac.client.informer import Informer

K = TypeVar("K", bound=Kind)


def key_of(obj: Kind) -> str:
    """Return namespace/name, or the name of a cluster-scoped object."""
    own = obj.metadata
    return f"{own.namespace}/{own.name}" if own.namespace else own.name


class ReadYourWritesCache(Generic[K]):
    """Objects by key, each in the newest version that this process knows."""

    def __init__(self, informer: Informer[K]) -> None:
        self._informer = informer
        self._written: dict[str, K] = {}
        informer.on_change(self._changed)

    def wrote(self, obj: K) -> None:
        """Record the server's response to a write. The cache may already show it, or a newer version."""
        key = key_of(obj)
        shown = self._informer.cache.item(key)
        if shown is None or is_newer(obj.metadata.resource_version, shown.metadata.resource_version):
            self._written[key] = obj

    def get(self, key: str) -> K | None:
        """Return the newest known version of an object."""
        return self._written.get(key) or self._informer.get(key)

    def __iter__(self) -> Iterator[K]:
        for item in self._informer.cache.items():
            if item.key not in self._written:
                yield item.object
        yield from self._written.values()

    def indexed(self, index: str, value: str) -> list[K]:
        """Return the objects that the cache has under an index, and all recently written ones.

        The caller must filter again.
        """
        found = [item for item in self._informer.indexed(index, value) if item.key not in self._written]
        return [*(item.object for item in found), *self._written.values()]

    def _changed(self, old: Item[K] | None, new: Item[K] | None) -> None:
        """Drop a recorded write once the cache shows it or a newer version, or the object's deletion."""
        item = new or old
        if item is None:
            return
        mine = self._written.get(item.key)
        if mine is not None:
            shown, written = item.metadata.resource_version, mine.metadata.resource_version
            if not is_newer(written, shown) or (new is None and item.metadata.uid == mine.metadata.uid):
                del self._written[item.key]
