"""The node's API on a port, for those who can dial it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tarmac.agent.http.api import NodeApi
from tarmac.http.listener import Listener, serve
from tarmac.http.tls import server_context


class NodeListener:
    """Serves over TLS. Without a client CA only bearer tokens tell who calls."""

    def __init__(self, api: NodeApi, host: str, port: int, client_ca: Path | None = None) -> None:
        self._api = api
        self._host = host
        self._port = port
        self._client_ca = client_ca
        self._listener: Listener | None = None
        self.port = port  # as bound, once `run` has begun

    async def run(self, certificate: Path, key: Path) -> None:
        """Serve until cancelled. Raises OSError when the port cannot be had."""
        context = server_context(certificate, key, self._client_ca)
        # few come this way: not worth the memory of an accelerator
        self._listener = listener = await serve(self._api.handle, context, self._host, self._port, accelerate="off")
        self.port = listener.port
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await listener.stop(grace=1.0)

    def renew(self, certificate: Path, key: Path) -> None:
        """Show another certificate to those who come from now on, and trust whom the file names now."""
        if self._listener is not None:
            self._listener.use(server_context(certificate, key, self._client_ca))
