"""The outside segment: a bridge with a server, a foreign host, a link of every gateway, and a capture of all frames.

The capture covers every frame of a gateway during a test. A frame fails the test unless its source is an address that
this gateway carries at that time, or the gateway's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tarmac.datapath.linux.egress.probing import question
from tarmac.datapath.linux.naming import outside_mac, virtual_mac
from tests.datapath.eye import Eye, Frame
from tests.datapath.worlds import PATIENCE, RealWorld

TARGET, TARGET6 = "192.168.122.139", "fd00:122::139"
STRANGER, STRANGER6 = "192.168.122.66", "fd00:122::66"
SEGMENTS = {4: "192.168.122.0/24", 6: "fd00:122::/64"}
INTERFACE = "outside0"
SLACK = 0.02  # tolerance of a kernel's timer


@dataclass(slots=True)
class Period:
    """The time during which a node may send under an address."""

    node: int
    address: str
    begin: float
    end: float


class Segment:
    """The LAN, the server at `TARGET` and the foreign host at `STRANGER`."""

    def __init__(self, world: RealWorld) -> None:
        self._world, self.lab = world, world.lab
        self.bridge = self.lab.namespace("lan")
        self.lab.command(self.bridge, "ip link add lan type bridge mcast_snooping 0")
        self.lab.command(self.bridge, "ip link set lan up")
        self.target = self._host("target", TARGET, TARGET6)
        self.stranger = self._host("stranger", STRANGER, STRANGER6)
        self._gateways: dict[str, int] = {}
        self.periods: list[Period] = []
        self.asked_for: set[str] = set()  # addresses that gateways may probe for
        self.routed: set[tuple[int, str]] = set()  # nodes, and addresses that routers may lead to them
        self._servers: list[asyncio.AbstractServer] = []
        self._echoes: list[asyncio.DatagramTransport] = []
        self._talking: list[asyncio.StreamWriter] = []
        self._eye = Eye(self.bridge, self._gateways)

    @property
    def frames(self) -> list[Frame]:
        """The frames that gateways have sent."""
        return self._eye.frames

    def gateway(self, number: int) -> None:
        """Give a machine a link to the LAN, with addresses of its own there."""
        machine = self.lab.machine(number)
        self._plug(machine, INTERFACE, f"g{number}", f"192.168.122.{number}", f"fd00:122::{number}")
        self._gateways[f"g{number}"] = number

    def carry(self, number: int, *addresses: str, seconds: float = 60.0) -> None:
        """Let a node carry addresses."""
        begin = time.time()
        self._world.node(number).external.carry(dict.fromkeys(addresses, seconds))
        self.periods += [Period(number, each, begin, time.time() + seconds + SLACK) for each in addresses]

    def drop(self, number: int, *addresses: str) -> None:
        """Let a node drop addresses."""
        self._world.node(number).external.drop(addresses)
        self.over(number, addresses)

    @staticmethod
    def now() -> float:
        """Return the time on the clock of frames."""
        return time.time()

    def over(self, number: int, addresses: Collection[str]) -> None:
        """End the permission of a node to send under addresses."""
        now = time.time() + SLACK
        for each in self.periods:
            if each.node == number and each.address in addresses:
                each.end = min(each.end, now)

    async def serve(self, port: int, answer: Callable[[str], str] = str) -> None:
        """Respond at a port of the server with the address that it sees."""
        for family in (socket.AF_INET, socket.AF_INET6):
            loop = asyncio.get_running_loop()
            stream = self._bound(self.target, family, socket.SOCK_STREAM, port)
            self._servers.append(await asyncio.start_server(_tells_source(answer, self._talking), sock=stream))
            datagrams = self._bound(self.target, family, socket.SOCK_DGRAM, port)
            made, _ = await loop.create_datagram_endpoint(lambda: _TellsSource(answer), sock=datagrams)
            self._echoes.append(made)

    async def said(
        self, caller: Path, address: str, port: int, protocol: str = "TCP", *, hope: bool = True
    ) -> str | None:
        """Return the response to a caller in a namespace at an address."""
        return await self._world.answer(caller, address, port, protocol, hope)

    def wrong(self) -> list[Frame]:
        """Return the frames with a wrong source."""
        return [each for each in self.frames if not self._is_right(each)]

    def look_away(self) -> None:
        """Stop the capture, before measurements that send too many frames to check."""
        self._eye.look_away()

    @property
    def missed(self) -> int:
        """The number of dropped frames, known after close."""
        return self._eye.missed

    def close(self) -> None:
        self.look_away()
        for each in (*self._servers, *self._echoes):
            each.close()
        for each in self._talking:  # their other ends may be cut off
            each.transport.abort()

    def _is_right(self, frame: Frame) -> bool:
        node = self._gateways[frame.port]
        addresses = {each.address for each in self.periods} | self.asked_for
        if frame.hardware not in self._own_hardware(node, addresses):
            own = {f"192.168.122.{node}", f"fd00:122::{node}", "::", "0.0.0.0"}
            own |= {address for at, address in self.routed if at == node}
            return frame.source in own or frame.source.startswith("fe80:")
        if frame.source in ("0.0.0.0", "::"):  # a probe, which has no source and updates no neighbour table
            return any(frame.content == question(frame.hardware, address) for address in self.asked_for)
        return all(self._may_speak(node, address, frame.at) for address in frame.speaks_as)

    def _own_hardware(self, node: int, addresses: set[str]) -> set[str]:
        return {outside_mac(f"198.18.0.{node}", INTERFACE), *map(virtual_mac, addresses)}

    def _may_speak(self, node: int, address: str, at: float) -> bool:
        return any(
            each.node == node and each.address == address and each.begin <= at <= each.end for each in self.periods
        )

    def _host(self, name: str, *addresses: str) -> Path:
        made = self.lab.namespace(name)
        self.lab.command(made, "ip link set lo up")
        self.lab.command(made, "sysctl -w net.ipv6.conf.default.addr_gen_mode=1")
        self._plug(made, "eth0", name, *addresses)
        return made

    def _plug(self, namespace: Path, interface: str, port: str, *addresses: str) -> None:
        self.lab.command(namespace, f"ip link add {interface} type veth peer name {port} netns {self.bridge}")
        for each in addresses:
            extra = "/64 dev %s nodad" if ":" in each else "/24 dev %s"
            self.lab.command(namespace, f"ip address add {each}{extra % interface}")
        self.lab.command(self.bridge, f"ip link set {port} master lan up")
        self.lab.command(namespace, f"ip link set {interface} up")
        self.lab.settle(namespace, [each for each in addresses if ":" in each])

    def _bound(self, namespace: Path, family: int, kind: int, port: int) -> socket.socket:
        made = self.lab.socket(namespace, family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
        return made


def _tells_source(answer: Callable[[str], str], talking: list[asyncio.StreamWriter]):
    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talking.append(writer)
        with contextlib.suppress(ConnectionError):
            while await reader.read(100):
                writer.write(answer(writer.get_extra_info("peername")[0]).encode())
                await writer.drain()
        writer.close()

    return tell


class _TellsSource(asyncio.DatagramProtocol):
    def __init__(self, answer: Callable[[str], str]) -> None:
        self._answer = answer
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        self._transport.sendto(self._answer(addr[0]).encode(), addr)


class Asking(Protocol):
    """Asks the server for the source that it sees; None without a response in time, or if the connection is over."""

    async def __call__(self, patience: float = PATIENCE) -> str | None: ...


@contextlib.asynccontextmanager
async def connected(
    segment: Segment, caller: Path, address: str, port: int, kind: int = socket.SOCK_STREAM
) -> AsyncGenerator[Asking]:
    """Open a connection; the result asks the server for the source that it sees."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    loop = asyncio.get_running_loop()
    with segment.lab.socket(caller, family, kind) as client:
        async with asyncio.timeout(PATIENCE):
            await loop.sock_connect(client, (address, port))

        async def ask(patience: float = PATIENCE) -> str | None:
            try:
                async with asyncio.timeout(patience):
                    await loop.sock_sendall(client, b"?")
                    return (await loop.sock_recv(client, 100)).decode() or None
            except OSError:
                return None

        yield ask
