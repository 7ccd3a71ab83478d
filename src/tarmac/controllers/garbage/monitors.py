"""Watches every deletable resource, metadata only, and feeds one graph.

Discovery is repeated every 30 seconds, so resources that appear later (custom ones) are collected too. Events are left
out: they are many, expire by themselves and own nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tarmac.api.status import ApiError
from tarmac.base.cooperative import CooperativeWork
from tarmac.base.log import log
from tarmac.client.backoff import Backoff
from tarmac.client.client import Client
from tarmac.client.discovery import DiscoveredResources, discover
from tarmac.client.errors import ClientError
from tarmac.client.reflector import Reflector
from tarmac.client.targets.target import Target
from tarmac.client.watch import Change
from tarmac.controllers.garbage.graph import Graph

REFRESH_SECONDS = 30.0
IGNORED = frozenset((("", "events"), ("events.k8s.io", "events")))

_log = log("garbage")


class _Monitor:
    """A reflector's sink for one resource's part of the graph."""

    def __init__(self, target: Target[Any], graph: Graph, queue: Callable[[Iterable[str]], None]) -> None:
        self._target = target
        self._graph = graph
        self._queue = queue

    def replaced(self, state: Sequence[Change]) -> CooperativeWork[None]:
        present = {change.metadata.uid for change in state}
        for change in state:
            self._queue(self._graph.observe(self._target, change.metadata))
            yield
        self._queue(self._graph.forget_others(self._target, present))

    def changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._queue(self._graph.forget(change.metadata.uid))
        else:
            self._queue(self._graph.observe(self._target, change.metadata))


class Monitors:
    """Runs a monitor for each deletable resource. `queue` is called with the uids to examine."""

    def __init__(self, client: Client, graph: Graph, queue: Callable[[Iterable[str]], None]) -> None:
        self._client = client
        self._graph = graph
        self._queue = queue
        self._reflectors: dict[tuple[str, str], tuple[Reflector, asyncio.Task[Any]]] = {}
        self._targets: dict[tuple[str, str], Target[Any]] = {}
        self._complete = asyncio.Event()

    def target(self, api_version: str, kind: str) -> Target[Any] | None:
        """Return the resource of a reference; None when the server does not serve the kind."""
        return self._targets.get((api_version.rpartition("/")[0], kind))

    async def synced(self) -> None:
        """Wait until all served resources have been listed."""
        await self._complete.wait()

    async def run(self) -> None:
        """Run a monitor for each served resource, until cancelled."""
        backoff = Backoff(self._client.randomness, 0.5, REFRESH_SECONDS)
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    self._adjust(group, await discover(self._client))
                except (ApiError, ClientError) as error:
                    _log.warning("discovery failed, will retry", error=str(error))
                    await self._client.clock.sleep(backoff.next())
                    continue
                backoff.reset()
                if not self._complete.is_set():
                    group.create_task(self._announce([reflector for reflector, _ in self._reflectors.values()]))
                await self._client.clock.sleep(REFRESH_SECONDS)

    async def _announce(self, reflectors: list[Reflector]) -> None:
        """Set `_complete` once every reflector has synced.

        Runs in its own task: a resource that never syncs must not delay the discovery of new ones.
        """
        for reflector in reflectors:
            await reflector.synced.wait()
        self._complete.set()

    def _adjust(self, group: asyncio.TaskGroup, found: DiscoveredResources) -> None:
        wanted = {
            (each.target.group, each.target.plural): each.target for each in found.with_verbs("delete", "list", "watch")
        }
        for identity in sorted(wanted.keys() - self._reflectors.keys() - IGNORED):
            target = wanted[identity]
            reflector = Reflector(self._client, target, _Monitor(target, self._graph, self._queue), metadata_only=True)
            self._targets[target.group, target.kind] = target
            self._reflectors[identity] = (reflector, group.create_task(reflector.run()))
        # A group whose discovery failed may still exist.
        if not found.failures:
            for identity in sorted(self._reflectors.keys() - wanted.keys()):
                reflector, task = self._reflectors.pop(identity)
                task.cancel()
                # A resource that vanished before its first list would otherwise block `_announce`, and with it all
                # collection.
                reflector.synced.set()
                self._targets.pop((reflector.target.group, reflector.target.kind), None)
                self._queue(self._graph.forget_others(reflector.target, set()))
