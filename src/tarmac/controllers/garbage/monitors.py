"""Watches over every resource that can be deleted, metadata only, feeding one graph.

What is served is asked again every so often, so resources that appear later (custom ones) are collected too. Events
are left out: they are many, expire by themselves and own nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tarmac.api.status import ApiError
from tarmac.base.log import log
from tarmac.base.pieces import Work
from tarmac.client.backoff import Backoff
from tarmac.client.client import Client
from tarmac.client.discovery import Discovery, discover
from tarmac.client.errors import ClientError
from tarmac.client.reflector import Reflector
from tarmac.client.targets.target import Target
from tarmac.client.watch import Change
from tarmac.controllers.garbage.graph import Graph

REFRESH_SECONDS = 30.0
IGNORED = frozenset((("", "events"), ("events.k8s.io", "events")))

_log = log("garbage")


class _Monitor:
    """A reflector's sink: one resource's part of the graph."""

    def __init__(self, target: Target[Any], graph: Graph, look: Callable[[Iterable[str]], None]) -> None:
        self._target = target
        self._graph = graph
        self._look = look

    def replaced(self, state: Sequence[Change]) -> Work[None]:
        present = {change.metadata.uid for change in state}
        for change in state:
            self._look(self._graph.observe(self._target, change.metadata))
            yield
        self._look(self._graph.forget_others(self._target, present))

    def changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._look(self._graph.forget(change.metadata.uid))
        else:
            self._look(self._graph.observe(self._target, change.metadata))


class Monitors:
    """Runs a monitor for each deletable resource. `look` is told which uids are worth looking at."""

    def __init__(self, client: Client, graph: Graph, look: Callable[[Iterable[str]], None]) -> None:
        self._client = client
        self._graph = graph
        self._look = look
        self._reflectors: dict[tuple[str, str], tuple[Reflector, asyncio.Task[Any]]] = {}
        self._targets: dict[tuple[str, str], Target[Any]] = {}
        self._complete = asyncio.Event()

    def target(self, api_version: str, kind: str) -> Target[Any] | None:
        """The resource behind a reference; None when the server serves no such kind."""
        return self._targets.get((api_version.rpartition("/")[0], kind))

    async def synced(self) -> None:
        """Wait until everything that is served has been seen."""
        await self._complete.wait()

    async def run(self) -> None:
        """Keep monitors for what is served, until cancelled."""
        backoff = Backoff(self._client.randomness, 0.5, REFRESH_SECONDS)
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    self._adjust(group, await discover(self._client))
                except (ApiError, ClientError) as error:
                    _log.warning("cannot discover what is served", error=str(error))
                    await self._client.clock.sleep(backoff.next())
                    continue
                backoff.reset()
                if not self._complete.is_set():
                    group.create_task(self._announce([reflector for reflector, _ in self._reflectors.values()]))
                await self._client.clock.sleep(REFRESH_SECONDS)

    async def _announce(self, reflectors: list[Reflector]) -> None:
        """Wait for the first state of each, on the side:

        one that never comes must not keep new ones from being found.
        """
        for reflector in reflectors:
            await reflector.synced.wait()
        self._complete.set()

    def _adjust(self, group: asyncio.TaskGroup, found: Discovery) -> None:
        wanted = {
            (each.target.group, each.target.plural): each.target for each in found.with_verbs("delete", "list", "watch")
        }
        for identity in sorted(wanted.keys() - self._reflectors.keys() - IGNORED):
            target = wanted[identity]
            reflector = Reflector(self._client, target, _Monitor(target, self._graph, self._look), metadata_only=True)
            self._targets[target.group, target.kind] = target
            self._reflectors[identity] = (reflector, group.create_task(reflector.run()))
        # A group that cannot be asked right now is not gone.
        if not found.failures:
            for identity in sorted(self._reflectors.keys() - wanted.keys()):
                reflector, task = self._reflectors.pop(identity)
                task.cancel()
                reflector.synced.set()
                self._targets.pop((reflector.target.group, reflector.target.kind), None)
                self._look(self._graph.forget_others(reflector.target, set()))
