"""Probes the UDP ports between a host that has just joined and other nodes, and names the rule that is missing."""

from __future__ import annotations

from typing import Final

from tarmac.agent.egress.nodefacts import private_key
from tarmac.agent.portprobes.asking import AskedPeer, peers_of, probe_ports
from tarmac.agent.portprobes.portmessages import PortSeals, key_of
from tarmac.api.declare import decoder
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.api.networking.tunnels import ClosedTunnel
from tarmac.api.status import ApiError
from tarmac.apps.host.hostlayout import Machine
from tarmac.apps.host.identity import node_client
from tarmac.apps.node.nodeegress import PRIVATE_KEY
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import TUNNEL_ENDPOINTS

KEY_TIMEOUT: Final = 10.0
"""The agent publishes the node's key a little after the node is Ready; without WireGuard it never does."""
_RETRY_INTERVAL: Final = 0.25
_decode: Final = decoder(TunnelEndpoint)


async def closed_ports(machine: Machine, name: str, clock: Clock) -> list[str]:
    """Return a sentence with the remedy for each closed port, or for ports that could not be probed."""
    draw = Randomness()
    try:
        seals = PortSeals(private_key(machine.agent / PRIVATE_KEY, draw.randbytes))
        client = node_client(machine)
        try:
            address, peers = await _peers(client, name, seals, clock)
        finally:
            await client.close()
        found = await probe_ports(seals, address, peers, clock, draw)
    except (ApiError, ClientError, OSError, ValueError) as error:
        return [f"UDP ports to other nodes: not probed: {error}; see tarmac doctor once instances run here"]
    return [remedy(each, name) for each in found]


def remedy(closed: ClosedTunnel, name: str) -> str:
    """Return the finding and the firewall rule that is missing."""
    ways = {
        "to": f"from {name} to {closed.peer}",
        "from": f"from {closed.peer} to {name}",
        "to or from": f"between {name} and {closed.peer}, in both directions",
    }
    return f"{closed}; let UDP port {closed.port} pass {ways[closed.direction]} in the firewalls between them"


async def _peers(client: Client, name: str, seals: PortSeals, clock: Clock) -> tuple[str, list[AskedPeer]]:
    """Return the node's own address, and the peers once they can know its key. Raises OSError."""
    deadline = clock.monotonic() + KEY_TIMEOUT
    while True:
        listed = await client.resource(TUNNEL_ENDPOINTS).list_raw()
        endpoints = {each.metadata.name: each for each in map(_decode, listed.items)}
        own = endpoints.pop(name, None)
        if not any(each.ready and each.public_key for each in endpoints.values()):
            return "", []
        if own is not None and own.addresses and key_of(own.public_key) == seals.public:
            return own.addresses[0], peers_of(own, endpoints)
        if clock.monotonic() > deadline:
            raise OSError("this node publishes no key, since WireGuard does not work here")
        await clock.sleep(_RETRY_INTERVAL)
