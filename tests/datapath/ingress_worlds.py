"""Public addresses on a real and a fake datapath alike: two Networks whose pods have the same addresses.

Nodes and pods are those of the tests of ExternalServices: nodes 1 and 2 have pods, nodes 3 and 4 have a link to the LAN
and may own addresses; node 3 has a pod of its own, too. The server of the LAN is the client here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tarmac.datapath.egress import EncryptedPeer, OutsideLink, Transport
from tarmac.datapath.ingress import IngressAddress, IngressState, LocalBackend, OpenPort
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.datapath.linux.naming import outside_mac, virtual_mac
from tests.datapath.egress_worlds import ADDRESSES, GATEWAYS, NETWORKS, PODS, RANGES
from tests.datapath.eye import Frame
from tests.datapath.segment import INTERFACE, SEGMENTS, SLACK, TARGET, TARGET6, Period, Segment
from tests.datapath.worlds import DENIED_WITHIN, PATIENCE, FakeWorld, RealWorld, nic

PUBLIC1, PUBLIC2 = "192.168.122.70", "192.168.122.71"
PUBLIC6, PUBLIC7 = "fd00:122::70", "fd00:122::71"
POOLS = ("192.168.122.64/26", "fd00:122::40/122")
NODES = (1, 2, 3, 4)
PORT, POD_PORT = 8080, 81


class Heard(NamedTuple):
    """The pod that responds, and the client's address that it sees."""

    sandbox: str
    seen: str


@dataclass(frozen=True)
class Way:
    """A public address that leads to pods of one Network."""

    address: str
    pods: Sequence[str]
    ports: Sequence[tuple[Transport, int, int]] = (("TCP", PORT, POD_PORT), ("UDP", PORT, POD_PORT))
    clients: tuple[str, ...] | None = None
    affinity: bool = False
    virtual: bool = False
    router: str = ""  # router of the segment
    draining: Sequence[str] = ()  # pods without new connections
    new_per_second: int | None = None
    connections: int | None = None

    def on(self, node: int) -> IngressAddress:
        """Return the address's part of a node's state."""
        six = ":" in self.address
        weights: dict[str, int] = {}
        for each in self.pods:
            weights[at(PODS[each][0])] = weights.get(at(PODS[each][0]), 0) + 1
        ports = tuple(
            OpenPort(
                protocol,
                port,
                tuple(sorted(weights.items())),
                tuple(
                    LocalBackend(PODS[each][1], ADDRESSES[each][six], to) for each in self.pods if PODS[each][0] == node
                ),
                self.clients,
                self.affinity,
            )
            for protocol, port, to in self.ports
        )
        outside = OutsideLink(INTERFACE, SEGMENTS[6 if six else 4], self.router, self.virtual)
        answerers = tuple(sorted({at(PODS[each][0]) for each in (*self.pods, *self.draining)}))
        return IngressAddress(
            self.address,
            ports,
            answerers,
            outside if node in GATEWAYS else None,
            new_per_second=self.new_per_second,
            connections=self.connections,
        )


def at(node: int) -> str:
    """Return the tunnel address of a node."""
    return f"198.18.0.{node}"


def state(node: int, *ways: Way) -> IngressState:
    """Return a node's desired state of public addresses."""
    peers = tuple(map(at, NODES))
    here = {PODS[pod] for each in ways for pod in (*each.pods, *each.draining)}
    networks = {network: RANGES for home, network in sorted(here) if home == node}
    return IngressState(at(node), tuple(each.on(node) for each in ways), POOLS, peers, networks)


BASIC = (
    Way(PUBLIC1, ("a", "c")),
    Way(PUBLIC2, ("b", "d")),
    Way(PUBLIC6, ("a", "c")),
    Way(PUBLIC7, ("b", "d")),
)
"""An address of each family for each of the two Networks. Some of their pods have the same addresses."""


class IngressSegment(Segment):
    """The LAN, with owners of public addresses."""

    def carry(self, number: int, *addresses: str, seconds: float = 60.0) -> None:
        begin = self.now()
        self._world.node(number).ingress.carry(dict.fromkeys(addresses, seconds))
        self.periods += [Period(number, each, begin, self.now() + seconds + SLACK) for each in addresses]

    def drop(self, number: int, *addresses: str) -> None:
        self._world.node(number).ingress.drop(addresses)
        self.over(number, addresses)

    def _own_hardware(self, node: int, addresses: set[str]) -> set[str]:
        return {outside_mac(f"ingress\0{at(node)}", INTERFACE), *map(virtual_mac, addresses)}


class IngressWorld:
    """The nodes and the outside."""

    def __init__(self, world: FakeWorld | RealWorld) -> None:
        self.world = world
        self.segment = IngressSegment(world) if isinstance(world, RealWorld) else None
        self._servers: list[asyncio.AbstractServer | asyncio.DatagramTransport] = []
        self._talking: list[asyncio.StreamWriter] = []
        self.encrypted: dict[int, tuple[EncryptedPeer, ...]] = {}  # node -> peers with encrypted tunnels
        self._fake_port = 40_000

    async def begin(self) -> None:
        """Create nodes, Networks, and pods that respond with their name and the client's address."""
        for node in NODES:
            if self.segment is not None and node in GATEWAYS:
                self.segment.gateway(node)
            await self.network(node)
        for sandbox, (node, network) in PODS.items():
            four, six = ADDRESSES[sandbox]
            await self.world.pod(node, sandbox, [nic(network, f"{four}/20", f"{six}/64", vni=NETWORKS[network])])
            if isinstance(self.world, RealWorld):
                await self._tell(self.world, sandbox)

    async def network(self, node: int, **changes: NetworkState) -> None:
        """Apply the Networks of a node; `changes` replaces some, by namespace."""
        states = [
            changes.get(name.partition("/")[0], NetworkState(name, vni, 1460, RANGES)) for name, vni in NETWORKS.items()
        ]
        assert not await self.world.node(node).apply(NodeNetworks((at(node),), tuple(states)))

    async def apply(self, *ways: Way, nodes: Sequence[int] = (1, 2, 3, 4)) -> None:
        """Apply public addresses to nodes, endpoints' nodes first."""
        for node in nodes:
            wanted = replace(state(node, *ways), encrypted=self.encrypted.get(node, ()))
            assert not await self.world.node(node).ingress.apply(wanted)

    def carry(self, node: int, *addresses: str, seconds: float = 60.0) -> None:
        """Let a node own addresses."""
        if self.segment is not None:
            self.segment.carry(node, *addresses, seconds=seconds)
        else:
            self.world.node(node).ingress.carry(dict.fromkeys(addresses, seconds))
        self.world.node(node).ingress.announce(addresses)

    def drop(self, node: int, *addresses: str) -> None:
        """Let a node drop addresses."""
        if self.segment is not None:
            self.segment.drop(node, *addresses)
        else:
            self.world.node(node).ingress.drop(addresses)

    async def called(
        self, address: str, port: int = PORT, protocol: Transport = "TCP", *, client: str = "", hope: bool = True
    ) -> Heard | None:
        """Return the pod that responds to an outside client, and the client's address that it sees."""
        client = client or (TARGET6 if ":" in address else TARGET)
        if isinstance(self.world, FakeWorld):
            self._fake_port += 1
            nodes = (self.world.node(each).ingress for each in GATEWAYS)
            found = (each.answers((client, self._fake_port), address, port, protocol) for each in nodes)
            return next((Heard(each.sandbox, each.seen) for each in found if each is not None), None)
        assert self.segment is not None
        async with talking(self.segment, self.segment.target, address, port, protocol, client, _patience(hope)) as ask:
            return await ask(_patience(hope))

    async def called_by_node(
        self, node: int, address: str, port: int = PORT, protocol: Transport = "TCP", *, hope: bool = True
    ) -> Heard | None:
        """Return the pod that responds to a node, and the address that it sees."""
        if isinstance(self.world, FakeWorld):
            self._fake_port += 1
            found = self.world.node(node).ingress.answers_node(self._fake_port, address, port, protocol)
            return None if found is None else Heard(found.sandbox, found.seen)
        assert self.segment is not None
        async with talking(
            self.segment, self.segment.lab.machine(node), address, port, protocol, patience=_patience(hope)
        ) as ask:
            return await ask(_patience(hope))

    async def called_by_pod(
        self, sandbox: str, address: str, port: int = PORT, protocol: Transport = "TCP", *, hope: bool = True
    ) -> Heard | None:
        """Return the pod that responds to a pod, and the address that it sees. With packets only."""
        assert self.segment is not None
        async with talking(
            self.segment, self.real.namespace(sandbox), address, port, protocol, patience=_patience(hope)
        ) as ask:
            return await ask(_patience(hope))

    @property
    def real(self) -> RealWorld:
        """Return the world, which must have packets."""
        assert isinstance(self.world, RealWorld)
        return self.world

    @property
    def lan(self) -> IngressSegment:
        """Return the LAN of a world with packets."""
        assert self.segment is not None
        return self.segment

    def ingress(self, node: int) -> Path:
        """Return a real node's ingress namespace."""
        return self.lan.lab.folder / f"run-{node}" / "ingress" / "netns"

    def tracked(self, node: int) -> int:
        """Return the number of connections that a node's ingress namespace tracks."""
        shown = self.lan.lab.command(self.ingress(node), "sysctl -n net.netfilter.nf_conntrack_count")
        return int(shown)

    def close(self) -> None:
        for each in self._servers:
            each.close()
        for each in self._talking:
            each.transport.abort()

    async def _tell(self, world: RealWorld, sandbox: str) -> None:
        for family, anywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            sockets: list[socket.socket] = []
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                made = world.lab.socket(world.namespace(sandbox), family, kind)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.bind((anywhere, POD_PORT))
                sockets.append(made)
            self._servers.append(await asyncio.start_server(self._telling(sandbox), sock=sockets[0]))
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_datagram_endpoint(lambda: _Tells(sandbox), sock=sockets[1])
            self._servers.append(transport)

    def _telling(self, sandbox: str):
        async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._talking.append(writer)
            with contextlib.suppress(ConnectionError):
                while asked := await reader.read(1 << 16):
                    writer.write(_told(sandbox, writer.get_extra_info("peername"), asked))
                    await writer.drain()
            writer.close()

        return tell


def _patience(hope: bool) -> float:
    return PATIENCE if hope else DENIED_WITHIN


def _told(sandbox: str, peer: tuple[str, int], asked: bytes) -> bytes:
    """Return the response, padded to the length of the request."""
    return f"{sandbox} {peer[0]} {peer[1]} ".encode().ljust(len(asked), b".")


class _Tells(asyncio.DatagramProtocol):
    def __init__(self, sandbox: str) -> None:
        self._sandbox = sandbox
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        self._transport.sendto(_told(self._sandbox, addr, data), addr)


class Call:
    """An open connection. Calling it sends a request and returns the response."""

    def __init__(self, made: socket.socket, own: tuple[str, int]) -> None:
        self._socket, self.own = made, own
        self.error: OSError | None = None

    async def __call__(self, patience: float = PATIENCE, size: int = 1) -> Heard | None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience):
                await loop.sock_sendall(self._socket, b"?" * size)
                told = b""
                while len(told) < size or b" " not in told:
                    told += (more := await loop.sock_recv(self._socket, 1 << 16))
                    if not more:
                        return None
        except OSError as error:
            self.error = error
            return None
        sandbox, seen, port, _ = told.decode().split(" ", 3)
        # Masked clients may get a different port; all others keep theirs.
        assert seen != self.own[0] or int(port) == self.own[1], f"{seen} is seen with port {port}"
        return Heard(sandbox, seen)


class Unreachable:
    """The result of a failed connection."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    async def __call__(self, patience: float = PATIENCE, size: int = 1) -> Heard | None:
        return None


@asynccontextmanager
async def talking(
    segment: Segment,
    caller: Path,
    address: str,
    port: int = PORT,
    protocol: Transport = "TCP",
    source: str = "",
    patience: float = PATIENCE,
) -> AsyncGenerator[Call | Unreachable]:
    """Open a connection from a namespace."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
    loop = asyncio.get_running_loop()
    with segment.lab.socket(caller, family, kind) as client:
        if source:
            client.bind((source, 0))
        try:
            async with asyncio.timeout(patience):
                await loop.sock_connect(client, (address, port))
        except OSError as error:
            yield Unreachable(error)
            return
        yield Call(client, client.getsockname()[:2])


@asynccontextmanager
async def ingress_world(world: FakeWorld | RealWorld) -> AsyncGenerator[IngressWorld]:
    """Run a world with an outside. At its end, no outside frame may have had a wrong source."""
    made = IngressWorld(world)
    try:
        await made.begin()
        yield made
    finally:
        made.close()
        if isinstance(world, RealWorld):
            for node in NODES:
                await world.node(node).ingress.remove()  # first, since an ending namespace may send packets
        await (world.close(remove=False) if isinstance(world, RealWorld) else world.close())
        if made.segment is not None:
            made.segment.close()
    if made.segment is not None:
        assert not made.segment.missed, "frames were dropped before their sources were checked"
        wrong: list[Frame] = made.segment.wrong()
        assert not wrong, f"{len(wrong)} frames of {len(made.segment.frames)} have a wrong source: {wrong[:5]}"


def without(ways: Sequence[Way], address: str, **changes: object) -> tuple[Way, ...]:
    """Return the public addresses, with changed fields of one."""
    fields: Mapping[str, object] = changes
    return tuple(replace(each, **fields) if each.address == address else each for each in ways)  # type: ignore[arg-type]
