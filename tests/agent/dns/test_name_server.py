"""The name server answers over UDP and TCP, forwards queries for foreign names, and survives any packet."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from tarmac.agent.dns.nameserver import NameServer
from tarmac.agent.dns.resolver import Resolver
from tarmac.agent.dns.upstream import Upstream
from tarmac.agent.dns.view import DnsView, EndpointRecord, NetworkAddress, PortRecord, ServiceRecord, SliceRecord
from tarmac.agent.routerservices import RouterServices
from tarmac.api.networking.names import RESOLVERS
from tarmac.base.clock import ManualClock, SystemClock
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tarmac.datapath.interface import Datapath
from tests.agent.dns.asking import Said, ask, made, read
from tests.support.ports import free_port

HOME, AWAY = "default/default", "other/default"
Reply = Callable[[bytes], list[bytes]]


class Elsewhere(asyncio.DatagramProtocol):
    """A foreign resolver. `reply` returns the packets to send back."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[bytes] = []

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.asked.append(data)
        for packet in self.reply(data):
            self._transport.sendto(packet, addr)


def addressed(*addresses: str, name: str = "www.example.com", ttl: int = 60, code: int = 0) -> Reply:
    def reply(packet: bytes) -> list[bytes]:
        (number,) = struct.unpack_from("!H", packet)
        return [made(name, "A", *map(socket.inet_aton, addresses), number=number, ttl=ttl, code=code)]

    return reply


@asynccontextmanager
async def elsewhere(reply: Reply) -> AsyncGenerator[tuple[Elsewhere, tuple[str, int]]]:
    loop = asyncio.get_running_loop()
    # A port that is free for TCP too: another process may hold the TCP port that the kernel picks for UDP.
    transport, protocol = await loop.create_datagram_endpoint(lambda: Elsewhere(reply), ("127.0.0.1", free_port()))
    try:
        yield protocol, transport.get_extra_info("sockname")
    finally:
        transport.close()


def view() -> DnsView:
    made = DnsView()
    made.put_service(("default", "web"), ServiceRecord(("10.96.0.9",), (PortRecord("http", "tcp", 80),)))
    made.put_service(("default", "outside"), ServiceRecord(external="www.example.com"))
    made.put_service(("default", "round"), ServiceRecord(external="round.default.svc.cluster.local"))
    made.put_service(("default", "many"), ServiceRecord((), ()))
    endpoints = tuple(EndpointRecord("", NetworkAddress(HOME, f"10.128.1.{number}"), True) for number in range(1, 101))
    made.put_slice(("default", "many"), "m", SliceRecord(HOME, (), endpoints))
    return made


class Wires:
    """The part of a datapath that a name server uses: sockets by network, address, port and kind."""

    def __init__(self) -> None:
        self.services: dict[tuple[str, str, int, str], tuple[str, int]] = {}

    async def bind(self, network: str, address: str, port: int, kind: str) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", 0))
        if kind == "tcp":
            made.listen()
        self.services[network, address, port, kind] = made.getsockname()
        return made

    async def door(self, network: str, kind: str) -> tuple[str, int]:
        async with asyncio.timeout(5):
            while (network, RESOLVERS[0], 53, kind) not in self.services:
                await asyncio.sleep(0.001)
        return self.services[network, RESOLVERS[0], 53, kind]

    async def ask(self, packet: bytes, network: str = HOME) -> Said:
        """Send a query over UDP."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.setblocking(False)
            asking.connect(await self.door(network, "udp"))
            async with asyncio.timeout(5):
                await loop.sock_sendall(asking, packet)
                return read(await loop.sock_recv(asking, 65535))

    async def ask_all(self, *packets: bytes, network: str = HOME) -> list[Said]:
        """Send queries over one TCP connection."""
        reader, writer = await asyncio.open_connection(*await self.door(network, "tcp"))
        said: list[Said] = []
        try:
            async with asyncio.timeout(5):
                for packet in packets:
                    writer.write(struct.pack("!H", len(packet)) + packet)
                    (size,) = struct.unpack("!H", await reader.readexactly(2))
                    said.append(read(await reader.readexactly(size)))
        finally:
            writer.close()
            await writer.wait_closed()
        return said


@asynccontextmanager
async def serving(*upstreams: tuple[str, int], clock: ManualClock | None = None) -> AsyncGenerator[Wires]:
    """Run a node with two networks and a name server."""
    wires = Wires()
    upstream = Upstream(upstreams, clock or SystemClock(), Randomness(1), timeout=0.1)
    server = NameServer(Resolver(view()), upstream, lambda network, _link: (network,))
    attending = RouterServices(cast("Datapath", wires), SystemClock(), server.services())
    attending.set_networks((HOME, AWAY))
    async with background(attending.run(), "services of networks"):
        yield wires


WEB, WWW = "web.default.svc.cluster.local", "www.example.com"


async def test_an_asker_is_known_by_its_network() -> None:
    async with serving() as wires:
        assert (await wires.ask(ask(WEB))).answers == [f"{WEB} A 10.96.0.9"]
        assert (await wires.ask(ask(WEB), AWAY)).code == 3
        (over_tcp,) = await wires.ask_all(ask(WEB), network=AWAY)
        assert over_tcp.code == 3


async def test_a_truncated_reply_is_queried_again_over_tcp() -> None:
    many = ask("many.default.svc.cluster.local", edns=1232)
    async with serving() as wires:
        short = await wires.ask(many)
        assert short.truncated
        assert short.answers == []
        whole, again = await wires.ask_all(many, ask(WEB))
        assert len(whole.answers) == 100
        assert not whole.truncated
        assert again.answers == [f"{WEB} A 10.96.0.9"]


async def test_others_are_asked_for_other_names_and_remembered() -> None:
    clock = ManualClock()
    async with elsewhere(addressed("192.0.2.1")) as (other, address), serving(address, clock=clock) as wires:
        said = await wires.ask(ask(WWW, number=4242))
        assert (said.id, said.answers, said.ttls) == (4242, [f"{WWW} A 192.0.2.1"], [60])
        assert not said.authoritative
        clock.advance(20)
        assert (await wires.ask(ask(WWW))).ttls == [40]
        assert len(other.asked) == 1
        clock.advance(41)
        assert (await wires.ask(ask(WWW))).ttls == [60]
        assert len(other.asked) == 2


async def test_a_silent_resolver_is_passed_over() -> None:
    async with (
        elsewhere(lambda _: []) as (_, silent),
        elsewhere(addressed("192.0.2.1")) as (_, other),
        serving(silent, other) as wires,
    ):
        assert (await wires.ask(ask(WWW))).answers == [f"{WWW} A 192.0.2.1"]


async def test_when_nobody_answers_that_is_the_answer() -> None:
    async with elsewhere(lambda _: []) as (_, silent), serving(silent) as wires:
        assert (await wires.ask(ask(WWW))).code == 2
    async with serving() as wires:
        assert (await wires.ask(ask(WWW))).code == 2


async def test_a_failing_resolver_is_passed_over_and_not_remembered() -> None:
    async with (
        elsewhere(addressed(code=2)) as (failing, address),
        elsewhere(addressed("192.0.2.1")) as (_, other),
        serving(address, other) as wires,
    ):
        assert (await wires.ask(ask(WWW))).answers == [f"{WWW} A 192.0.2.1"]
        assert len(failing.asked) == 1


async def test_forged_answers_are_waited_past() -> None:
    def reply(packet: bytes) -> list[bytes]:
        (number,) = struct.unpack_from("!H", packet)
        forged = socket.inet_aton("203.0.113.66")
        return [
            b"",
            b"x",
            made(WWW, "A", forged, number=number ^ 1),
            made("other.example.com", "A", forged, number=number),
            made(WWW, "A", socket.inet_aton("192.0.2.1"), number=number),
        ]

    async with elsewhere(reply) as (_, address), serving(address) as wires:
        assert (await wires.ask(ask(WWW))).answers == [f"{WWW} A 192.0.2.1"]


async def test_an_answer_that_was_cut_short_is_asked_for_over_tcp() -> None:
    def cut(packet: bytes) -> list[bytes]:
        (number,) = struct.unpack_from("!H", packet)
        return [made(WWW, "A", number=number, flags=0x8380)]

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (size,) = struct.unpack("!H", await reader.readexactly(2))
        (number,) = struct.unpack_from("!H", await reader.readexactly(size))
        answer = made(WWW, "A", *(bytes((192, 0, 2, last)) for last in range(100)), number=number)
        writer.write(struct.pack("!H", len(answer)) + answer)
        writer.close()

    async with elsewhere(cut) as (_, address):
        server = await asyncio.start_server(whole, *address)
        async with server, serving(address) as wires:
            (said,) = await wires.ask_all(ask(WWW))
            assert len(said.answers) == 100
            assert (await wires.ask(ask(WWW))).truncated


async def test_numbers_cannot_be_guessed() -> None:
    async with elsewhere(addressed(ttl=0)) as (other, address), serving(address) as wires:
        for _ in range(20):
            await wires.ask(ask(WWW))
        assert len({packet[:2] for packet in other.asked}) > 15


async def test_an_external_service_leads_to_its_addresses() -> None:
    outside = "outside.default.svc.cluster.local"
    async with elsewhere(addressed("192.0.2.1")) as (_, address), serving(address) as wires:
        said = await wires.ask(ask(outside))
        assert said.answers == [f"{outside} CNAME {WWW}", f"{WWW} A 192.0.2.1"]
        assert (await wires.ask(ask("round.default.svc.cluster.local"))).code == 2


@pytest.mark.parametrize("packet", [b"", b"\0", b"\xff" * 3000, ask(WEB)[:20], ask(WEB, flags=0x8000), b"\xc0" * 100])
async def test_nonsense_stops_nobody(packet: bytes) -> None:
    async with serving() as wires:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            for _ in range(50):
                asking.sendto(packet, await wires.door(HOME, "udp"))
        reader, writer = await asyncio.open_connection(*await wires.door(HOME, "tcp"))
        writer.write(struct.pack("!H", len(packet)) + packet)
        writer.close()
        await writer.wait_closed()
        del reader
        assert (await wires.ask(ask(WEB))).answers == [f"{WEB} A 10.96.0.9"]
        (said,) = await wires.ask_all(ask(WEB))
        assert said.answers == [f"{WEB} A 10.96.0.9"]
