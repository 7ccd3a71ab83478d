"""Publishes the tunnel key of this node, and keeps the encrypted link working: checked every few seconds.

Until the first check the node publishes the same as before its restart, since its key is the same. A node that never
published anything starts as one that cannot encrypt: peers would otherwise treat it as one with an older agent, and
send to it in plaintext.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from tarmac.api.networking.tunnels import NodeTunnel, write_tunnel
from tarmac.base.clock import Clock
from tarmac.datapath.interface import TunnelEncryption

INTERVAL: Final = 5.0


class TunnelMeans:
    """The annotation of one node. `changed` is called when it must be written."""

    def __init__(
        self, encryption: TunnelEncryption, public_key: str, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self._encryption, self._public_key = encryption, public_key
        self._clock, self._changed = clock, changed
        self._tunnel: NodeTunnel | None = None

    def annotation(self, published: str) -> str:
        """Return the text to publish, given the Node's current one; empty to leave that unchanged."""
        if self._tunnel is None:
            return "" if published else write_tunnel(NodeTunnel(probes=True, encryption="none"))
        return write_tunnel(self._tunnel)

    async def run(self) -> NoReturn:
        """Check until cancelled."""
        while True:
            await self.update()
            await self._clock.sleep(INTERVAL)

    async def update(self) -> None:
        """Recreate the link if it is lost, and publish the means of encryption."""
        await self._encryption.mend()
        means = await self._encryption.means()
        tunnel = NodeTunnel(True, means, "" if means == "none" else self._public_key)
        if tunnel != self._tunnel:
            self._tunnel = tunnel
            self._changed()
