"""The local copy of one resource: encoded objects, indexes over them, and the differences between two states.

Per object it keeps the bytes, shared with the server's store when both are in one process, and one dictionary slot.
Objects are decoded on access, and the last few decoded ones are cached; callers share them and must not change them.
Metadata alone is cheaper to read than the whole object, and enough for most handlers and indexes.

Every accepted change calls the handlers once with (old, new): (None, new) appeared, (old, None) is gone with its last
known state, both otherwise. A name reused by a new object (a different uid) is a disappearance followed by an
appearance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from sys import intern
from typing import Generic, TypeVar

from tarmac.base.compactset import CompactSet, added, members, removed
from tarmac.base.cooperative import CooperativeWork
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.client.envelope import EnvelopeMetadata, is_newer, metadata_of
from tarmac.client.targets.target import Target
from tarmac.client.watch import Change

T = TypeVar("T")
MAX_DECODED = 128

_log = log("cache")


class Item(Generic[T]):
    """One version of one object, decoded lazily."""

    __slots__ = ("_cache", "_metadata", "raw")

    def __init__(self, cache: Cache[T], raw: bytes, metadata: EnvelopeMetadata | None = None) -> None:
        self._cache = cache
        self._metadata = metadata
        self.raw = raw

    @property
    def metadata(self) -> EnvelopeMetadata:
        """The common metadata."""
        if self._metadata is None:
            self._metadata = metadata_of(self.raw)
        return self._metadata

    @property
    def key(self) -> str:
        """`namespace/name` or `name`."""
        return self.metadata.key

    @property
    def object(self) -> T:
        """The whole object. Shared: do not change it."""
        return self._cache.decoded(self.raw)


Handler = Callable[["Item[T] | None", "Item[T] | None"], None]
Indexer = Callable[["Item[T]"], Iterable[str]]


def by_namespace(item: Item[T]) -> tuple[str, ...]:
    """Index: objects of a namespace."""
    return (item.metadata.namespace,)


def by_owner(item: Item[T]) -> Iterable[str]:
    """Index: objects that have an owner of this uid."""
    return tuple(owner.uid for owner in item.metadata.owner_references or ())


def by_label(label: str) -> Indexer[T]:
    """Index: objects by the value of a label."""

    def index(item: Item[T]) -> Iterable[str]:
        value = (item.metadata.labels or {}).get(label)
        return () if value is None else (value,)

    return index


class _Index(Generic[T]):
    """Value to keys."""

    __slots__ = ("_keys", "_values_of")

    def __init__(self, values_of: Indexer[T]) -> None:
        self._values_of = values_of
        self._keys: dict[str, CompactSet] = {}

    def add(self, key: str, item: Item[T]) -> None:
        for value in self._values_of(item):
            self._keys[intern(value)] = added(self._keys.get(value), key)

    def remove(self, key: str, item: Item[T]) -> None:
        for value in self._values_of(item):
            left = self._keys[intern(value)] = removed(self._keys.get(value), key)
            if left is None:
                del self._keys[value]

    def keys(self, value: str) -> list[str]:
        return members(self._keys.get(value))


class Cache(Generic[T]):
    """A sink for a reflector, and the reader's view of it."""

    def __init__(self, target: Target[T]) -> None:
        self.target = target
        self._raw: dict[str, bytes] = {}
        self._recent: dict[int, tuple[bytes, T]] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self._handlers: list[Handler[T]] = []

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def get(self, key: str) -> T | None:
        """Return the object, or None. Shared: do not change it."""
        raw = self._raw.get(key)
        return None if raw is None else self.decoded(raw)

    def item(self, key: str) -> Item[T] | None:
        """Return the object undecoded, or None."""
        raw = self._raw.get(key)
        return None if raw is None else Item(self, raw)

    def keys(self) -> list[str]:
        """Return all keys."""
        return list(self._raw)

    def items(self) -> Iterator[Item[T]]:
        """Yield all objects."""
        return (Item(self, raw) for raw in list(self._raw.values()))

    def indexed(self, index: str, value: str) -> list[Item[T]]:
        """Return the objects that an index has under a value, in key order."""
        return [Item(self, self._raw[key]) for key in self._indexes[index].keys(value)]

    def add_index(self, name: str, values_of: Indexer[T]) -> None:
        """Index present and future objects. Adding a name again keeps the first index."""
        if name in self._indexes:
            return
        index = self._indexes[name] = _Index(values_of)
        for key, raw in self._raw.items():
            index.add(key, Item(self, raw))

    def add_handler(self, handler: Handler[T]) -> None:
        """Call a handler for every present object, then for every change."""
        self._handlers.append(handler)
        for item in self.items():
            _call(handler, None, item)

    def decoded(self, raw: bytes) -> T:
        """Decode, caching the last few. Keyed by identity, which holding the bytes keeps valid."""
        found = self._recent.get(id(raw))
        if found is not None:
            return found[1]
        obj = self.target.decode(raw)
        if len(self._recent) >= MAX_DECODED:
            del self._recent[next(iter(self._recent))]
        self._recent[id(raw)] = (raw, obj)
        return obj

    def replaced(self, state: Sequence[Change]) -> CooperativeWork[None]:
        """Take a whole new state, calling handlers only for differences."""
        present = {change.metadata.key for change in state}
        for key in [key for key in self._raw if key not in present]:
            self._drop(key, Item(self, self._raw[key]))
            yield
        for change in state:
            self._put(change, trust=True)
            yield

    def changed(self, change: Change) -> None:
        """Take one change."""
        if change.type != "DELETED":
            self._put(change, trust=False)
            return
        old = self._raw.get(change.metadata.key)
        if old is None:
            return
        known = metadata_of(old)
        stale = is_newer(known.resource_version, change.metadata.resource_version)
        if known.uid == change.metadata.uid and not stale:
            self._drop(change.metadata.key, Item(self, change.raw, change.metadata))

    def _put(self, change: Change, trust: bool) -> None:
        """Store one object. A listing is trusted even when its version is older: the server's history was rewound."""
        metadata = change.metadata
        key = metadata.key
        old: Item[T] | None = None
        if key in self._raw:
            old = Item(self, self._raw[key])
            version = old.metadata.resource_version
            if old.metadata.uid != metadata.uid:
                self._drop(key, old)
                old = None
            elif metadata.resource_version == version or not (trust or is_newer(metadata.resource_version, version)):
                return
        new = Item(self, change.raw, metadata)
        for index in self._indexes.values():
            if old is not None:
                index.remove(key, old)
            index.add(key, new)
        self._raw[key] = change.raw
        self._notify(old, new)

    def _drop(self, key: str, last: Item[T]) -> None:
        stored = Item(self, self._raw.pop(key))
        for index in self._indexes.values():
            index.remove(key, stored)
        self._notify(last, None)

    def _notify(self, old: Item[T] | None, new: Item[T] | None) -> None:
        for handler in self._handlers:
            _call(handler, old, new)


def _call(handler: Handler[T], old: Item[T] | None, new: Item[T] | None) -> None:
    """Call a handler. A failing handler must not stop the cache or the other handlers."""
    try:
        handler(old, new)
    except Exception as error:
        end_if_out_of_memory(error)
        item = new or old
        _log.error("handler failed", key=item.key if item else "", error=repr(error))
