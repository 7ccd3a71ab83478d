"""Probes the tunnels to the nodes that share a Network with this one, and answers their probes.

A probe is a UDP packet inside a Network that both nodes have. It takes the path of an instance's packet: the tunnel of
the Network, its encryption, every firewall between the nodes. Agents answer, so only Ready peers with agents that
announce it are probed.

Packets are accepted from probe addresses of peers only: source checks in router namespaces prevent pods from using
them. A peer can answer only for itself, since the nonce of a probe goes to one node. Each socket is read at a limited
rate, and an answer is no longer than a probe.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NoReturn

from tarmac.agent.model.tunnelstate import TunnelState
from tarmac.agent.network.tunnels.losses import INTERVAL, MAX_LOST, ProbedPeer, TunnelLosses, TunnelProbe, TunnelRoute
from tarmac.agent.routerservices import RouterService, RouterServices
from tarmac.api.networking.ports import ENCRYPTED_PORT, PROBE_PORT, TUNNEL_PORT
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.api.networking.tunnels import closed_message
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import first
from tarmac.datapath.interface import Datapath, NetworkState, NodeNetworks
from tarmac.decide import reasons
from tarmac.decide.reach.marks import probe_address

_PACKET: Final = struct.Struct(">4sB3x8s")  # magic, kind, nonce
_MAGIC: Final = b"TmTp"
_PROBE, _ANSWER = 1, 2
_BURST, _PAUSE = 64, 0.1


class TunnelProbes:
    """The probes of one node. `endpoints` are those of all nodes by name, `networks` the state in force here.

    `problems` are sentences about tunnels that cannot be encrypted. `changed` is called when `state` differs.
    """

    def __init__(
        self,
        endpoints: Callable[[], Mapping[str, TunnelEndpoint]],
        datapath: Datapath,
        addresses: Callable[[], Sequence[str]],
        networks: Callable[[], NodeNetworks],
        problems: Callable[[], Sequence[str]],
        changed: Callable[[], None],
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._endpoints, self._clock, self._datapath = endpoints, clock, datapath
        self._addresses, self._networks = addresses, networks
        self._problems, self._changed = problems, changed
        self._losses = TunnelLosses(randomness.randbytes)
        self._sources: Mapping[str, str] = {}  # probe address -> address of the peer
        self._sockets: dict[str, socket.socket] = {}
        self._played = 0
        self._reported: TunnelState | None = None

    def state(self) -> TunnelState | None:
        """Return the state of all tunnels; None until enough probes were sent."""
        closed = self._losses.closed(self._clock.monotonic())
        problems = self._problems()
        if closed or problems:
            messages = [*([closed_message(closed)] if closed else ()), *problems]
            reason = reasons.ENCRYPTION_UNAVAILABLE if problems else reasons.TUNNEL_CLOSED
            return TunnelState(False, reason, "; ".join(messages))
        is_known = self._losses.peers > 0 and self._losses.is_settled
        if not is_known and self._played <= MAX_LOST:
            return None
        message = "every node that shares a Network with this one answers tunnel probes"
        if not self._losses.peers:
            message = "no node that answers tunnel probes shares a Network with this one"
        return TunnelState(True, reasons.TUNNELS_OPEN, message)

    async def run(self) -> NoReturn:
        """Probe and answer until cancelled."""
        while True:
            if addresses := self._addresses():
                await self._probe_from(addresses[0])
            else:
                await self._clock.sleep(INTERVAL)

    async def _probe_from(self, address: str) -> None:
        """Probe until the node's address changes."""
        service = RouterService("tunnel probes", probe_address(address), PROBE_PORT, "udp", self._serve)
        services = RouterServices(self._datapath, self._clock, [service])
        # Either one ends both: the sockets of the old address must go when the node has another.
        await first(services.run(), self._rounds(address, services))

    async def _rounds(self, address: str, services: RouterServices) -> None:
        while self._addresses()[:1] == [address]:
            services.set_networks({each.name for each in self._networks().networks if each.vni and each.remotes})
            self._probe()
            await self._clock.sleep(INTERVAL)

    def _probe(self) -> None:
        """Run one round."""
        peers = self._peers()
        self._losses.follow(peers)
        # Before the probes are sent: an answer from an address that is not in it is dropped.
        self._sources = {probe_address(each.address): each.address for each in peers}
        for each in self._losses.next_round(self._clock.monotonic()):
            self._send(each)
        self._played += 1
        self._notify()

    def _peers(self) -> list[ProbedPeer]:
        """Return each Ready node that answers probes, once for each path to it, in the first network of that path."""
        nodes = {
            address: name
            for name, endpoint in self._endpoints().items()
            if endpoint.ready and endpoint.probes
            for address in endpoint.addresses
        }
        found: dict[TunnelRoute, ProbedPeer] = {}
        in_force = self._networks()
        for network in in_force.networks:
            for remote in network.remotes if network.name in self._sockets else ():
                if name := nodes.get(remote.node_address):
                    port = _port(in_force, network, remote.node_address)
                    peer = ProbedPeer(name, remote.node_address, network.name, port)
                    found.setdefault(peer.route, peer)
        return list(found.values())

    def _send(self, probe: TunnelProbe) -> None:
        # No await since `_peers` looked: the socket is still there.
        self._put(self._sockets[probe.peer.network], _PROBE, probe.nonce, probe_address(probe.peer.address))

    async def _serve(self, network: str, made: socket.socket) -> None:
        self._sockets[network] = made
        try:
            while True:
                await self._read_some(network, made)
                await self._clock.sleep(_PAUSE)
        finally:
            # A socket opened for the network again has taken its place, and must stay.
            if self._sockets.get(network) is made:
                del self._sockets[network]

    async def _read_some(self, network: str, made: socket.socket) -> None:
        """Read a limited number of packets, so that a node that floods the socket gets no more of the event loop."""
        await _readable(made)
        with suppress(BlockingIOError):
            for _ in range(_BURST):
                # One byte more than a packet: a longer datagram would be cut to the right length.
                data, source = made.recvfrom(_PACKET.size + 1)
                self._handle(network, made, data, source[0])

    def _handle(self, network: str, made: socket.socket, data: bytes, source: str) -> None:
        peer = self._sources.get(source)
        if peer is None or len(data) != _PACKET.size:
            return
        magic, kind, nonce = _PACKET.unpack(data)
        if magic != _MAGIC:
            return
        route = self._route(network, peer)
        # Counted before the kind is known: any packet shows that the direction from the peer is open.
        self._losses.heard(route, self._clock.monotonic())
        if kind == _PROBE:
            self._put(made, _ANSWER, nonce, source)
        elif kind == _ANSWER and self._losses.answer(route, nonce):
            self._notify()

    def _route(self, network: str, address: str) -> TunnelRoute:
        in_force = self._networks()
        found = next((each for each in in_force.networks if each.name == network), None)
        return address, _port(in_force, found, address) if found is not None else 0

    def _put(self, made: socket.socket, kind: int, nonce: bytes, to: str) -> None:
        with suppress(OSError):  # no route yet, or a full queue: counts as lost
            made.sendto(_PACKET.pack(_MAGIC, kind, nonce), (to, PROBE_PORT))

    def _notify(self) -> None:
        state = self.state()
        if state != self._reported:
            # Before the call, which may read the state again.
            self._reported = state
            self._changed()


def _port(in_force: NodeNetworks, network: NetworkState, address: str) -> int:
    return ENCRYPTED_PORT if in_force.tunnels.encrypts(network.vni, address) else TUNNEL_PORT


async def _readable(made: socket.socket) -> None:
    """Wait until a socket is readable."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(made, ready.set)
    try:
        await ready.wait()
    finally:
        # Before the caller closes the socket: its descriptor's number may soon be that of another one.
        loop.remove_reader(made)
