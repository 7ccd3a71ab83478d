"""Informers: one shared local copy per resource, however many controllers read it.

`Informers` hands out one `Informer` per (resource, namespace, selectors) and runs them all. There is no periodic
resync: the copy is exact, so replaying it would give handlers nothing new. Wait for `synced` before acting on the
*absence* of an object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Generic, NoReturn, TypeVar, cast

from tarmac.client.cache import Cache, Handler, Indexer, Item
from tarmac.client.client import Client
from tarmac.client.feed import Feed
from tarmac.client.reflector import ListGuard, Reflector, Stats
from tarmac.client.targets.target import Target

T = TypeVar("T")


class Informer(Generic[T]):
    """A cache and the reflector that feeds it."""

    def __init__(
        self, client: Client, target: Target[T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> None:
        self.target = target
        self.cache: Cache[T] = Cache(target)
        self._reflector = Reflector(
            client,
            target,
            self.cache,
            namespace=namespace,
            labels=labels,
            fields=fields,
        )

    @property
    def stats(self) -> Stats:
        """Counts of listings, resumes, events."""
        return self._reflector.stats

    @property
    def has_synced(self) -> bool:
        """True if the cache holds a complete state."""
        return self._reflector.synced.is_set()

    async def synced(self) -> None:
        """Wait for the first complete state."""
        await self._reflector.synced.wait()

    def get(self, key: str) -> T | None:
        """Return the object, or None. Shared: do not change it."""
        return self.cache.get(key)

    def indexed(self, index: str, value: str) -> list[Item[T]]:
        """Return objects by an index."""
        return self.cache.indexed(index, value)

    def add_index(self, name: str, values_of: Indexer[T]) -> None:
        """Index by `by_namespace`, `by_owner`, `by_label(...)` or any function of an item."""
        self.cache.add_index(name, values_of)

    def on_change(self, handler: Handler[T]) -> None:
        """Call with (old, new) for every present object and for every change."""
        self.cache.add_handler(handler)

    def guard_lists(self, guard: ListGuard) -> None:
        """Apply every full listing inside `guard`; if that raises, the listing is requested again."""
        self._reflector.guard = guard

    async def run(self) -> NoReturn:
        """Keep the cache up to date until cancelled."""
        await self._reflector.run()


class Informers:
    """The informers of one process, created on demand and shared."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._informers: dict[tuple[str, str, str, str, object, str, str, str], Informer[Any]] = {}
        self._feeds: dict[str, Feed] = {}
        self._group: asyncio.TaskGroup | None = None

    def informer(self, target: Target[T], *, namespace: str = "", labels: str = "", fields: str = "") -> Informer[T]:
        """Return the informer for this selection. One created while `run` is running starts at once."""
        identity = (
            target.group,
            target.version,
            target.plural,
            target.kind,
            target.type,
            namespace,
            labels,
            fields,
        )
        informer = self._informers.get(identity)
        if informer is None:
            informer = Informer(self.client, target, namespace=namespace, labels=labels, fields=fields)
            self._informers[identity] = informer
            if self._group is not None:
                self._group.create_task(informer.run(), name=f"informer of {target.path()}")
        return cast("Informer[T]", informer)

    def feed(self, target: Target[Any]) -> Feed:
        """Return the feed of a resource, for readers of a few fields.

        Like an informer, it starts while `run` is running.
        """
        path = target.path()
        if path not in self._feeds:
            self._feeds[path] = Feed(self.client, target)
            if self._group is not None:
                self._group.create_task(self._feeds[path].run(), name=f"feed of {path}")
        return self._feeds[path]

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(self._informers.values())

    async def synced(self) -> None:
        """Wait until every informer created so far is complete."""
        for informer in list(self._informers.values()):
            await informer.synced()

    async def run(self) -> None:
        """Run all informers and feeds until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for each in (*self._informers.values(), *self._feeds.values()):
                    group.create_task(each.run())
                await asyncio.Event().wait()
            finally:
                self._group = None
