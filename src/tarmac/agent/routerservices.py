"""Runs services in the router namespace of every network on this node."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.interface import Datapath

RETRY_INTERVAL = 1.0

_log = log("attending")


@dataclass(frozen=True, slots=True)
class RouterService:
    """A service: its address in each network, and the function that serves there until cancelled."""

    name: str
    address: str
    port: int
    kind: Literal["tcp", "udp"]
    serve: Callable[[str, socket.socket], Awaitable[None]]


class RouterServices:
    """The router services of one agent."""

    def __init__(self, datapath: Datapath, clock: Clock, services: Sequence[RouterService]) -> None:
        self._datapath = datapath
        self._clock = clock
        self._services = tuple(services)
        self._wanted: frozenset[str] = frozenset()
        self._changed = asyncio.Event()

    def set_networks(self, networks: Collection[str]) -> None:
        """Set the networks to serve, as namespace/name."""
        self._wanted = frozenset(networks)
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        open_: dict[str, list[asyncio.Task[None]]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                # Before the wanted networks are read: a change from here on starts another pass.
                self._changed.clear()
                for network in open_.keys() - self._wanted:
                    for task in open_.pop(network):
                        # Not awaited: a network that returns at once may find its address in use until this task has
                        # closed its socket, and retries.
                        task.cancel()
                for network in sorted(self._wanted - open_.keys()):
                    open_[network] = [group.create_task(self._serve(network, service)) for service in self._services]
                await self._changed.wait()

    async def _serve(self, network: str, service: RouterService) -> None:
        """Bind and serve; retry after a failure: the namespace may not exist yet."""
        while True:
            try:
                made = await self._datapath.bind(network, service.address, service.port, service.kind)
            except OSError as error:
                _log.debug(
                    "service cannot be bound yet, will retry", network=network, service=service.name, why=str(error)
                )
            else:
                made.setblocking(False)
                # Closes the socket before the next bind, which would find its own address in use.
                with made:
                    try:
                        await service.serve(network, made)
                    except OSError as error:
                        _log.warning(
                            "service closed, will retry", network=network, service=service.name, why=str(error)
                        )
            await self._clock.sleep(RETRY_INTERVAL)
