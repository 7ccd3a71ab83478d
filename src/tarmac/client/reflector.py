"""Keeps a local copy up to date with the server: lists once, then follows every change.

The only state is the last resource version seen: with one, the next connection *resumes* from it; without one, the
state is *listed* afresh and handed over as a whole, so that the receiver can work out the differences. The version is
dropped only when the server says that its history no longer reaches back (410), or that it has never come that far (a
restored backup). Broken connections, garbage and server restarts resume; they do not relist.

Events at or below the version already seen are repeats and are skipped, so no event is applied twice or out of order.
Deletions are always passed on, since a server may show a deleted object's last version; the sink can tell a late one by
its uid. A listing is streamed through the watch itself where the server offers it (`sendInitialEvents`), else fetched
page by page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, NoReturn, Protocol

import msgspec

from tarmac.api.status import ApiError, BadRequest, Gone, Invalid
from tarmac.base.cooperative import CooperativeWork
from tarmac.base.log import log
from tarmac.client.backoff import Backoff
from tarmac.client.client import Client
from tarmac.client.envelope import envelope_of, is_newer
from tarmac.client.errors import ClientError, Disconnected, GarbledReply
from tarmac.client.requests import Query
from tarmac.client.resourceclient import PAGE, ResourceClient
from tarmac.client.targets.target import Target
from tarmac.client.watch import Change, Watch, watch

FIRST_DELAY = 0.2
MAX_DELAY = 30.0
MIN_WATCH_TIMEOUT = 300
SHORT_WATCH = 1.0
METADATA_FORM = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST_FORM = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_log = log("reflector")


class Sink(Protocol):
    """The receiver of the copy. Calls come in order, one at a time."""

    def replaced(self, state: Sequence[Change]) -> CooperativeWork[None]:
        """Take the whole state, as ADDED changes. Objects missing in it are removed first.

        Other tasks run where it yields. They see a mix of old and new objects, as if the changes had come one by one; a
        reader that needs a complete state waits for `synced`.
        """
        ...

    def changed(self, change: Change) -> None:
        """Take one ADDED, MODIFIED or DELETED."""
        ...


ListGuard = Callable[[], AbstractAsyncContextManager[None]]


class Stats:
    """Counters of one reflector."""

    __slots__ = ("bookmarks", "errors", "events", "lists", "repeats", "resumes")

    def __init__(self) -> None:
        self.lists = 0  # full listings; more than one means that history was lost
        self.resumes = 0  # watches continued from a version
        self.events = 0
        self.bookmarks = 0
        self.repeats = 0  # events skipped as already seen
        self.errors = 0


class _Rewound(Exception):
    """The server's versions have gone back: the copy belongs to a different history."""


class Reflector:
    """Feeds one sink from one resource. `run` never returns; cancel it to stop."""

    def __init__(
        self,
        client: Client,
        target: Target[Any],
        sink: Sink,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> None:
        self.target = target
        self.stats = Stats()
        self.synced = asyncio.Event()  # the sink holds a complete state
        self.guard: ListGuard = nullcontext  # held while a listing replaces the known state
        self._client = client
        self._resource = ResourceClient(client, target)
        self._sink = sink
        self._path = target.path(namespace)
        self._namespace = namespace
        self._selection: dict[str, str] = {"labelSelector": labels, "fieldSelector": fields}
        self._accept = {"accept": METADATA_FORM if metadata_only else "application/json"}
        self._accept_list = {"accept": METADATA_LIST_FORM if metadata_only else "application/json"}
        self._version: str | None = None
        self._streams_lists = True
        self._backoff = Backoff(client.randomness, FIRST_DELAY, MAX_DELAY)

    async def run(self) -> NoReturn:
        """Keep the sink up to date until cancelled."""
        while True:
            delay = await self._attempt()
            if delay:
                await self._client.clock.sleep(delay)

    async def _attempt(self) -> float:
        """Run one connection; returns the delay before the next."""
        started = self._client.clock.monotonic()
        try:
            if self._version is not None:
                await self._resume(self._version)
            elif not (self._streams_lists and await self._list_by_watch()):
                await self._list_by_pages()
                return 0.0
        except (Gone, _Rewound) as error:
            self._version = None
            _log.info("history lost, listing again", resource=self.target.plural, why=str(error))
            # The first relist is immediate; a server without any history gets back-off.
            first, delay = self._backoff.failures == 0, self._backoff.next()
            return 0.0 if first else delay
        except (ApiError, ClientError) as error:
            if _too_new(error):
                self._version = None
            self.stats.errors += 1
            _log.debug("watch failed", resource=self.target.plural, why=str(error))
            return self._backoff.next()
        # Orderly end. A server that ends every watch at once gets back-off, too.
        if self._client.clock.monotonic() - started >= SHORT_WATCH:
            self._backoff.reset()
            return 0.0
        return self._backoff.next()

    async def _resume(self, version: str) -> None:
        query: Query = {**self._watch_query(), "resourceVersion": version}
        async with watch(self._client, self._path, query, self._accept) as changes:
            self.stats.resumes += 1
            await self._follow(changes)

    async def _list_by_watch(self) -> bool:
        """List and follow in one stream; False when the server does not offer that."""
        query: Query = {
            **self._watch_query(),
            "sendInitialEvents": True,
            "resourceVersionMatch": "NotOlderThan",
        }
        try:
            async with watch(self._client, self._path, query, self._accept) as changes:
                state, version = await _initial_state(changes)
                await self._take(state, version)
                await self._follow(changes)
                return True
        except (BadRequest, Invalid):
            return False
        except (ClientError, ApiError):
            # Too much state for one stream, or bad luck: pages make progress where the stream does not.
            if self._version is None:
                self._streams_lists = False
            raise

    async def _list_by_pages(self) -> None:
        query: dict[str, str | int | bool | None] = {**self._selection, "limit": PAGE}
        state: list[Change] = []
        while True:
            try:
                page = await self._resource.list_raw(self._namespace, query, self._accept_list)
            except Gone:
                if not query.get("continue"):
                    raise
                # The snapshot expired between pages: take everything at once.
                state, query = [], {**self._selection}
                continue
            state.extend(self._item(raw) for raw in page.items)
            if not page.continues:
                break
            query["continue"] = page.continues
        await self._take(state, page.resource_version)
        self._streams_lists = True

    async def _take(self, state: list[Change], version: str) -> None:
        if not version:
            raise GarbledReply("a list without a resource version")
        self.stats.lists += 1
        # Changes meanwhile wait in the stream: the sink has no other caller. If this is cancelled, there is no version
        # yet, and the next attempt lists again.
        async with self.guard():
            await self._client.runner.done(self._sink.replaced(state))
        self._version = version
        self.synced.set()

    async def _follow(self, changes: Watch) -> None:
        async for change in changes:
            version = change.metadata.resource_version
            if not version:
                raise GarbledReply("an event without a resource version")
            newer = self._version is None or is_newer(version, self._version)
            if change.type == "BOOKMARK":
                if not newer and version != self._version:
                    raise _Rewound(f"bookmark {version} after {self._version}")
                self.stats.bookmarks += 1
            elif newer or change.type == "DELETED":
                self.stats.events += 1
                # The version advances only when the sink has the change, with no await in between: after a cancellation
                # at any point, the next connection resumes exactly after the last applied change.
                self._sink.changed(change)
            else:
                self.stats.repeats += 1
            if newer:
                self._version = version
            self._backoff.reset()

    def _watch_query(self) -> dict[str, str | int | bool | None]:
        seconds = int(MIN_WATCH_TIMEOUT * self._client.randomness.uniform(1, 2))
        return {**self._selection, "timeoutSeconds": seconds, "allowWatchBookmarks": True}

    def _item(self, raw: msgspec.Raw) -> Change:
        """Convert an item of a list. Items may lack the type that events carry; it is added."""
        envelope = envelope_of(raw)
        body = bytes(raw)
        if not envelope.kind:
            body = self.target.stamped(body)
        return Change("ADDED", envelope.metadata, body)


async def _initial_state(changes: Watch) -> tuple[list[Change], str]:
    state: dict[str, Change] = {}
    async for change in changes:
        if change.type == "BOOKMARK":
            if change.ends_initial_events:
                return list(state.values()), change.metadata.resource_version
        elif change.type == "DELETED":
            state.pop(change.metadata.key, None)
        else:
            state[change.metadata.key] = change
    raise Disconnected("the stream ended before the initial state was complete")


def _too_new(error: Exception) -> bool:
    """True if the server has not reached our version: it was restored from an older state."""
    causes = (error.details or {}).get("causes") if isinstance(error, ApiError) else None
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes or ())
