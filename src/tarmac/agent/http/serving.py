"""The node's API on a TCP port."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tarmac.agent.http.api import NodeApi
from tarmac.http.listener import Listener, serve
from tarmac.http.tls import server_context


class NodeListener:
    """Serves over TLS. Without a client CA, clients authenticate only with bearer tokens."""

    def __init__(self, api: NodeApi, host: str, port: int, client_ca: Path | None = None) -> None:
        self._api = api
        self._host = host
        self._port = port
        self._client_ca = client_ca
        self._listener: Listener | None = None
        self.port = port  # the bound port, once `run` has started

    async def run(self, certificate: Path, key: Path) -> None:
        """Serve until cancelled. Raises OSError if the port cannot be bound."""
        context = server_context(certificate, key, self._client_ca)
        # few requests use this port: an accelerator is not worth its memory
        self._listener = listener = await serve(self._api.handle, context, self._host, self._port, accelerate="off")
        self.port = listener.port
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            # First the listener: `close` ends only the streams that are open by then.
            await listener.stop(grace=1.0)
            await self._api.close()

    def renew(self, certificate: Path, key: Path) -> None:
        """Use a new certificate, and the client CA file's current content, for new connections."""
        if self._listener is not None:
            self._listener.use(server_context(certificate, key, self._client_ca))
