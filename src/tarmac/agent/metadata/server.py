"""Serves metadata over HTTP in every network's router namespace; the link of a connection identifies the pod."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from tarmac.agent.ingresslink import link_of_connection
from tarmac.agent.metadata.service import MetadataService
from tarmac.agent.routerservices import RouterService
from tarmac.api.networking.names import METADATA_ADDRESS
from tarmac.api.schema import JsonObject
from tarmac.http.connection import ConnectionContext, ServerConnection
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Listener
from tarmac.http.messages import Answer, Request

PORT: Final = 80
# All connections are unauthenticated: above the limit, the pod with the most connections loses its oldest.
LIMITS: Final = ListenerLimits(
    body=1024, head=8192, pipeline=4, head_time=5, body_time=5, write_time=10, idle_time=30, unauthenticated=512
)

PodAt = Callable[[str, int], JsonObject | None]
"""Returns the pod behind a link of a network."""


class MetadataServer:
    """The HTTP server. Call `start` before serving, `stop` after."""

    def __init__(self, metadata: MetadataService, pod_at: PodAt) -> None:
        self._metadata = metadata
        self._pod_at = pod_at
        self._listener: Listener | None = None

    async def start(self) -> None:
        """Start the listener."""
        self._listener = Listener(self._handle, LIMITS)
        await self._listener.start((), 0, None)

    async def stop(self) -> None:
        """Close all connections."""
        if self._listener is not None:
            await self._listener.stop(grace=0.5)

    def services(self) -> list[RouterService]:
        """Return the sockets to serve in each network."""
        return [RouterService("metadata", METADATA_ADDRESS, PORT, "tcp", self.serve)]

    async def serve(self, network: str, listening: socket.socket) -> None:
        """Accept connections until cancelled."""
        listener = self._listener
        assert listener is not None, "nobody is served before the start"
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(listening)
            caller = f"{network}#{link_of_connection(accepted)}"
            called = _Called(listener, caller)
            await loop.connect_accepted_socket(lambda called=called: called, accepted)
            listener.admit(called, caller)  # after connecting: a connection without a transport could not be closed

    async def _handle(self, request: Request) -> Answer:
        network, _, link = request.peer_address.rpartition("#")
        return await self._metadata.answer(request, self._pod_at(network, int(link)))


class _Called(ServerConnection):
    """A connection identified by its link: the peer's address would be ambiguous."""

    __slots__ = ("_caller",)

    def __init__(self, shared: ConnectionContext, caller: str) -> None:
        super().__init__(shared)
        self._caller = caller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._reader.peer_address = self._caller
