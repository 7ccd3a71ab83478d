"""Packet attacks on ExternalServices. Each forged packet first succeeds from a permitted sender, so the defence is the
reason that it fails from others. `test_egress_defences` removes the defences.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.api.networking.ports import EXTERNAL_PORT
from tarmac.datapath.linux.naming import tunnel_mac
from tarmac.datapath.linux.tables.admission import EXTERNAL_VNI
from tests.datapath.egress_worlds import (
    DIAL,
    DIAL6,
    KEP,
    SOURCE1,
    SOURCE2,
    SOURCE6,
    ExternalWorld,
    Service,
    source,
    transit,
)
from tests.datapath.frames import udp_frame
from tests.datapath.segment import STRANGER, TARGET, TARGET6, Segment
from tests.datapath.worlds import DENIED_WITHIN

pytestmark = [pytest.mark.root]

PORT = 8002
FOUR = Service([source("a", SOURCE1)], ports=(("UDP", PORT, PORT),), inbound=(("UDP", 90, 90),))
SIX = Service([source("a", SOURCE6)], ports=(("UDP", PORT, PORT),), inbound=(("UDP", 90, 90),))


def tunnelled(node: int, inner_source: str, inner_destination: str, port: int, word: bytes) -> bytes:
    """Encode a packet for the end of a node's tunnel."""
    mac = tunnel_mac(EXTERNAL_VNI, f"198.18.0.{node}")
    head = struct.pack(">II", 0x08000000, EXTERNAL_VNI << 8)
    return head + udp_frame(mac, "02:00:00:00:00:09", inner_source, inner_destination, port, word)


async def send(segment: Segment, namespace: Path, node: int, content: bytes) -> None:
    """Send a datagram to a node's tunnel port from a namespace."""
    with segment.lab.socket(namespace, socket.AF_INET, socket.SOCK_DGRAM) as sender:
        await asyncio.get_running_loop().sock_sendto(sender, content, (f"198.18.0.{node}", EXTERNAL_PORT))


class Ear:
    """Receives datagrams at a port of a namespace, over both families."""

    def __init__(self, segment: Segment, namespace: Path, port: int) -> None:
        self._sockets = [
            segment.lab.socket(namespace, family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)
        ]
        for each, address in zip(self._sockets, ("0.0.0.0", "::"), strict=True):
            if ":" in address:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind((address, port))

    async def next(self, patience: float = 5.0) -> tuple[bytes, str] | None:
        """Return the next datagram and its sender; None after the timeout."""
        loop = asyncio.get_running_loop()
        waiting = [asyncio.ensure_future(loop.sock_recvfrom(each, 2000)) for each in self._sockets]
        done, pending = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()
        return next(((word, peer[0]) for word, peer in (each.result() for each in done)), None)

    def close(self) -> None:
        for each in self._sockets:
            each.close()


@pytest.mark.parametrize(("service", "seen", "target"), [(FOUR, SOURCE1, TARGET), (SIX, SOURCE6, TARGET6)])
async def test_a3_a7_only_the_node_itself_uses_its_transit_addresses(
    lan: ExternalWorld, service: Service, seen: str, target: str
) -> None:
    await lan.apply(service)
    lan.carry(3, seen)
    segment = lan.frames()
    ear = Ear(segment, segment.target, PORT)
    try:
        forged = tunnelled(3, transit(service.sources[0]), target, PORT, b"forged")
        for place in (segment.lab.machine(2), segment.lab.machine(9), lan.namespace("a"), lan.namespace("b")):
            await send(segment, place, 3, forged)
        assert await ear.next(DENIED_WITHIN) is None, (
            "another node, a foreign machine on the wire, a source pod, another pod"
        )
        await send(segment, segment.lab.machine(1), 3, forged)
        assert await ear.next() == (b"forged", seen), "the owner of the transit address may"
        other = tunnelled(3, transit(service.sources[0]), target, PORT + 1, b"forged")
        await send(segment, segment.lab.machine(1), 3, other)
        assert await ear.next(DENIED_WITHIN) is None, "only to the destination of its own pods"
    finally:
        ear.close()


@pytest.mark.parametrize(("service", "target"), [(FOUR, TARGET), (SIX, TARGET6)])
async def test_a7_only_gateways_of_an_address_speak_for_the_server(
    lan: ExternalWorld, service: Service, target: str
) -> None:
    await lan.apply(service)
    segment = lan.frames()
    ear = Ear(segment, lan.namespace("a"), 90)
    way = transit(service.sources[0])
    try:
        forged = tunnelled(1, target, way, 90, b"forged")
        for machine in (2, 9):
            await send(segment, segment.lab.machine(machine), 1, forged)
        other = STRANGER if target == TARGET else "fd00:122::66"
        await send(segment, segment.lab.machine(4), 1, tunnelled(1, other, way, 90, b"for another server"))
        await send(segment, segment.lab.machine(4), 1, tunnelled(1, target, way, 91, b"to a closed port"))
        assert await ear.next(DENIED_WITHIN) is None
        await send(segment, segment.lab.machine(4), 1, forged)
        assert await ear.next() == (b"forged", target), "a candidate for the address could have admitted it anyway"
    finally:
        ear.close()


async def quiet(segment: Segment) -> int:
    """Return the number of frames once no more arrive."""
    seen = -1
    while seen != len(segment.frames):
        seen = len(segment.frames)
        await asyncio.sleep(0.3)
    return seen


async def test_a5_nobody_outside_but_the_server_gets_a_word_from_an_address(lan: ExternalWorld) -> None:
    await lan.apply(replace(KEP, inbound=(("TCP", 80, 80),)))
    lan.carry(3, SOURCE1, SOURCE2)
    segment = lan.frames()
    assert await lan.called(SOURCE2, 80) == "b"
    sent = await quiet(segment)  # the end of that connection may still be on its way
    for address in (SOURCE1, SOURCE2):
        for port, protocol in ((80, "TCP"), (8000, "UDP"), (22, "TCP")):
            assert await segment.said(segment.stranger, address, port, protocol, hope=False) is None
        assert await segment.said(segment.target, address, 81, hope=False) is None, "a closed port"
        with segment.lab.socket(segment.target, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as echo:
            await asyncio.get_running_loop().sock_sendto(echo, struct.pack(">BBHHH", 8, 0, 0xF7FE, 1, 0), (address, 0))
    await asyncio.sleep(0)
    packets = [
        each
        for each in segment.frames[sent:]
        if each.content[12:14] == b"\x08\x00" and each.source in (SOURCE1, SOURCE2)
    ]
    assert not packets, f"silence, not {packets[:3]}"


async def test_a5_an_address_of_ours_as_a_source_on_the_lan_is_nobody(lan: ExternalWorld) -> None:
    """Also if rules would admit it: a class may have been extended to the address of a server."""
    service = replace(FOUR, targets={4: SOURCE2, 6: TARGET6})
    await lan.apply(service)
    lan.carry(3, SOURCE1)
    segment = lan.frames()
    segment.lab.command(segment.stranger, f"ip address add {SOURCE2}/24 dev eth0")
    ear = Ear(segment, lan.namespace("a"), 90)
    try:
        with segment.lab.socket(segment.stranger, socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((SOURCE2, 0))
            await asyncio.get_running_loop().sock_sendto(sender, b"a server", (SOURCE1, 90))
            assert await ear.next() == (b"a server", SOURCE2)
            for node in (3, 4):
                state, more = service.state(node), KEP.state(node).sources[1:]
                await lan.world.node(node).external.apply(replace(state, sources=(*state.sources, *more)))
            await asyncio.get_running_loop().sock_sendto(sender, b"one of ours", (SOURCE1, 90))
            assert await ear.next(DENIED_WITHIN) is None
    finally:
        ear.close()


async def test_a14_a_node_and_its_own_processes_get_nowhere_with_a_dialled_address(lan: ExternalWorld) -> None:
    await lan.apply(KEP)
    lan.carry(3, SOURCE1, SOURCE2)
    segment = lan.frames()
    for machine in (1, 3):
        for dialled in (DIAL, DIAL6):
            assert await segment.said(segment.lab.machine(machine), dialled, 8000, hope=False) is None
