"""Connections of the server to simulated nodes, within one process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from tarmac.http.clientrequest import Dial
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Listener
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.sessions.api import SimulatedNodeApi


class SimulatedNodeConnections:
    """Dials nodes of a fleet that have power, a connection and an agent."""

    def __init__(self, fleet: SimulatedNodes, listener: Listener) -> None:
        self._fleet = fleet
        self._listener = listener

    def find(self, node: str) -> Dial | None:
        """Return a way to connect to a node, or None if it cannot be reached."""
        known = self._fleet.nodes.get(node)
        return self._dial if known is not None and known.hears else None

    async def _dial(self, factory: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            for each in (ours, theirs):
                each.setblocking(False)
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
            # Served before the peer can send: its protocol so far would drop the bytes.
            self._listener.adopt(transport, b"")
            await loop.create_connection(factory, sock=theirs)
        except BaseException:
            ours.close()
            theirs.close()
            raise


@asynccontextmanager
async def connections(fleet: SimulatedNodes, api: SimulatedNodeApi) -> AsyncGenerator[SimulatedNodeConnections]:
    """Serve the API of simulated nodes until the block ends."""
    listener = Listener(api.answer, ListenerLimits())
    await listener.start([], 0, None)
    try:
        yield SimulatedNodeConnections(fleet, listener)
    finally:
        await api.close()
        await listener.stop(grace=1.0)
