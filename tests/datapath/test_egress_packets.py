"""Packet tests of ExternalServices: addresses at both ends, sizes, errors, refusals, revocation, foreign changes.

The LAN captures all frames; one with a wrong source fails a test.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import time
from dataclasses import replace

import pytest

from tests.datapath.egress_worlds import (
    DIAL,
    DIAL6,
    IPV4,
    IPV6,
    KEP,
    SOURCE1,
    SOURCE2,
    SOURCE6,
    ExternalWorld,
    Family,
    Protocol,
    Service,
    source,
)
from tests.datapath.segment import TARGET, connected
from tests.datapath.worlds import DENIED_WITHIN

pytestmark = [pytest.mark.root]

BOTH = pytest.mark.parametrize("of", [IPV4, IPV6], ids=["IPv4", "IPv6"])
BOTH_WAYS = replace(KEP, inbound=(("TCP", 80, 80), ("UDP", 80, 80)), sources=[*KEP.sources, source("d", SOURCE2)])
DIAL_OF = {4: DIAL, 6: DIAL6}
SOURCE_OF = {4: SOURCE1, 6: SOURCE6}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
DUAL = Service(
    [source("a", SOURCE1), source("a", SOURCE6), source("c", SOURCE1), source("c", SOURCE6)],
    inbound=(("TCP", 80, 80), ("UDP", 90, 90)),
)


async def refusal(lan: ExternalWorld, sandbox: str, address: str, kind: int, port: int = 8000) -> tuple[int, float]:
    """Return the error that a pod gets at an address, and the seconds until then."""
    loop, began = asyncio.get_running_loop(), time.monotonic()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with lan.frames().lab.socket(lan.namespace(sandbox), family, kind) as client:
        try:
            async with asyncio.timeout(3):
                await loop.sock_connect(client, (address, port))
                await loop.sock_sendall(client, b"?")
                await loop.sock_recv(client, 10)
        except TimeoutError:
            return 0, 3.0
        except OSError as failure:
            return failure.errno or 0, time.monotonic() - began
    return 0, time.monotonic() - began


async def test_a_forbidden_connection_is_refused_at_once(lan: ExternalWorld) -> None:
    await lan.apply(DUAL)
    lan.carry(3, SOURCE1, SOURCE6)
    for version in (4, 6):
        assert await lan.seen("a", DIAL_OF[version]) == SOURCE_OF[version]
    await lan.apply(replace(DUAL, sources=DUAL.sources[:2]), 2)  # node 2 learns that c is no source any more
    cases = [("c", 8000), ("a", 8999), ("b", 8000)]  # the last one is on a Network without any rules
    for sandbox, port in cases:
        for address in (DIAL, DIAL6):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                tries = [await refusal(lan, sandbox, address, kind, port) for _ in range(3)]
                why, after = min(tries, key=lambda each: each[1])
                assert why == errno.ECONNREFUSED, (sandbox, port, address, kind, errno.errorcode.get(why))
                assert after < 0.01, f"a refusal took {after * 1000:.1f} ms"


@BOTH
async def test_i2_the_pod_sees_the_server_and_the_server_sees_one_address_both_ways(
    lan: ExternalWorld, of: Family
) -> None:
    service = replace(of.kep, sources=of.kep.sources[2:], inbound=(("TCP", 90, 90), ("UDP", 90, 90)))
    await lan.apply(service)
    lan.carry(3, of.second)
    segment, loop = lan.frames(), asyncio.get_running_loop()
    family, everywhere = FAMILY[of.version], "::" if of.version == 6 else "0.0.0.0"
    pod = segment.lab.socket(lan.namespace("b"), family, socket.SOCK_DGRAM)
    with pod, segment.lab.socket(segment.target, family, socket.SOCK_DGRAM) as server:
        pod.bind((everywhere, 90))
        await loop.sock_sendto(server, b"hello", (of.second, 90))
        data, peer = await asyncio.wait_for(loop.sock_recvfrom(pod, 100), 5)
        assert (data, peer[0]) == (b"hello", of.target)
        await loop.sock_sendto(pod, b"back", peer)
        _, seen = await asyncio.wait_for(loop.sock_recvfrom(server, 100), 5)
        assert seen[:2] == (of.second, 90)
    pod = segment.lab.socket(lan.namespace("b"), family, socket.SOCK_STREAM)
    with pod, segment.lab.socket(segment.target, family, socket.SOCK_STREAM) as server:
        pod.bind((everywhere, 90))
        pod.listen()
        await asyncio.wait_for(loop.sock_connect(server, (of.second, 90)), 5)
        accepted, peer = await asyncio.wait_for(loop.sock_accept(pod), 5)
        with accepted:
            assert peer[:2] == (of.target, server.getsockname()[1])
            await loop.sock_sendall(accepted, b"back")
            assert await asyncio.wait_for(loop.sock_recv(server, 100), 5) == b"back"


async def test_a_moved_address_takes_its_connections_along_and_back(lan: ExternalWorld) -> None:
    await lan.apply(BOTH_WAYS)
    lan.carry(3, SOURCE1, SOURCE2)
    segment = lan.frames()
    far, near, out = lan.namespace("a"), lan.namespace("d"), segment.target
    await lan.world.serve("b", 81)
    async with (
        connected(segment, far, DIAL, 8000) as ask_far,
        connected(segment, near, DIAL, 8000) as ask_near,
        connected(segment, far, DIAL, 8000, socket.SOCK_DGRAM) as ask_datagrams,
    ):
        for gateway in (4, 3, 4):
            await asyncio.gather(*(ask() for ask in (ask_far, ask_near, ask_datagrams)))
            lan.drop(7 - gateway, SOURCE1, SOURCE2)
            lan.carry(gateway, SOURCE1, SOURCE2)
            answers = await asyncio.gather(*(ask() for ask in (ask_far, ask_near, ask_datagrams)))
            assert answers == [SOURCE1, SOURCE2, SOURCE1]
    assert await segment.said(out, SOURCE2, 80) in ("b", "d")


async def test_a_connection_from_outside_goes_on_at_another_gateway(lan: ExternalWorld) -> None:
    await lan.apply(DUAL)
    lan.carry(3, SOURCE1)
    segment, loop = lan.frames(), asyncio.get_running_loop()
    listeners = [segment.lab.socket(lan.namespace(each), socket.AF_INET, socket.SOCK_STREAM) for each in ("a", "c")]
    await lan.world.node(1).external.apply(replace(DUAL, inbound=(("TCP", 70, 70),)).state(1))
    for node in (2, 3, 4):
        await lan.apply(replace(DUAL, inbound=(("TCP", 70, 70),)), node)
    for each in listeners:
        each.bind(("0.0.0.0", 70))
        each.listen()
    accepts = [asyncio.ensure_future(loop.sock_accept(each)) for each in listeners]
    with segment.lab.socket(segment.target, socket.AF_INET, socket.SOCK_STREAM) as server:
        await asyncio.wait_for(loop.sock_connect(server, (SOURCE1, 70)), 5)
        done, pending = await asyncio.wait(accepts, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()
        pod, peer = done.pop().result()
        assert peer[0] == TARGET
        lan.drop(3, SOURCE1)
        lan.carry(4, SOURCE1)
        with pod:
            await loop.sock_sendall(pod, b"first word at the new gateway")
            assert await asyncio.wait_for(loop.sock_recv(server, 100), 5) == b"first word at the new gateway"
            await loop.sock_sendall(server, b"and back")
            assert await asyncio.wait_for(loop.sock_recv(pod, 100), 5) == b"and back"
    for each in listeners:
        each.close()


@pytest.mark.serial
@pytest.mark.parametrize("way", ["the pod's node", "the gateway"])
async def test_withdrawn_connections_end_within_a_second_and_others_continue(lan: ExternalWorld, way: str) -> None:
    await lan.apply(KEP)
    lan.carry(3, SOURCE1, SOURCE2)
    segment = lan.frames()
    async with (
        connected(segment, lan.namespace("a"), DIAL, 8000) as losing,
        connected(segment, lan.namespace("a"), DIAL, 8000, socket.SOCK_DGRAM) as losing_datagrams,
        connected(segment, lan.namespace("b"), DIAL, 8000) as keeping,
    ):
        assert [await losing(), await losing_datagrams(), await keeping()] == [SOURCE1, SOURCE1, SOURCE2]
        rest = replace(KEP, sources=[each for each in KEP.sources if each.sandbox == "b"])
        await lan.apply(rest, 1 if way == "the pod's node" else 3)
        began = time.monotonic()
        assert await losing(0.5) is None
        assert await losing_datagrams(0.2) is None
        assert time.monotonic() - began < 1.0
        assert await keeping() == SOURCE2


async def test_an_edit_ends_no_connection_that_is_still_allowed(lan: ExternalWorld) -> None:
    await lan.apply(KEP)
    lan.carry(3, SOURCE1, SOURCE2)
    async with connected(lan.frames(), lan.namespace("a"), DIAL, 8000) as ask:
        for port in (9000, 9001):
            await lan.apply(replace(KEP, ports=(("TCP", 8000, 8000), ("TCP", port, port)), connections=port))
            assert await ask() == SOURCE1


async def test_nothing_is_sent_when_the_lease_has_run_out(lan: ExternalWorld) -> None:
    await lan.apply(DUAL)
    lan.carry(3, SOURCE1, SOURCE6, seconds=0.5)
    segment = lan.frames()
    async with connected(segment, lan.namespace("a"), DIAL, 8000) as ask:
        assert await ask() == SOURCE1
        deadline = time.monotonic() + 3
        while lan.world.node(3).external.carried():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        sent = len(segment.frames)
        assert await ask(0.3) is None
        segment.lab.command(segment.stranger, "ip neigh flush dev eth0")
        await asyncio.gather(*(segment.said(segment.stranger, each, 80, hope=False) for each in (SOURCE1, SOURCE6)))
        lan.world.node(3).external.announce([SOURCE1, SOURCE6])
        silent = [each for each in segment.frames[sent:] if each.source in (SOURCE1, SOURCE6)]
        assert not silent, "no ARP response either"
        lan.carry(3, SOURCE1)
        assert await ask() == SOURCE1, "the connection still exists"


async def test_renewing_goes_on_while_rules_change(lan: ExternalWorld) -> None:
    await lan.apply(KEP)
    for turn in range(20):
        began = time.monotonic()
        lan.carry(3, SOURCE1, SOURCE2, seconds=1.5)
        ports: tuple[tuple[Protocol, int, int], ...] = (("TCP", 8000, 8000), ("TCP", 9000 + turn, 9000 + turn))
        await lan.apply(replace(KEP, ports=ports, connections=100 + turn), 3)
        left = lan.world.node(3).external.carried()
        assert left.keys() == {SOURCE1, SOURCE2}
        passed = time.monotonic() - began
        assert all(1.5 - passed - 0.1 < each <= 1.5 for each in left.values()), f"{left} after {passed}"
    assert await lan.seen("a") == SOURCE1


async def test_sizes_and_errors_about_them(lan: ExternalWorld) -> None:
    await lan.apply(replace(DUAL, ports=(("UDP", 8002, 8002), ("UDP", 8003, 8003))))
    lan.carry(3, SOURCE1, SOURCE6)
    segment = lan.frames()
    for version in (4, 6):
        pod = segment.lab.socket(lan.namespace("c"), FAMILY[version], socket.SOCK_DGRAM)
        with pod, segment.lab.socket(segment.target, FAMILY[version], socket.SOCK_DGRAM) as server:
            server.bind(("::" if version == 6 else "0.0.0.0", 8002))
            await large_datagrams_pass_both_ways(version, pod, server)
            await a_server_is_told_that_its_packets_are_too_large(lan, version, pod, server)
        nobody = await refusal(lan, "c", DIAL_OF[version], socket.SOCK_DGRAM, 8003)
        assert nobody[0] == errno.ECONNREFUSED, "the server's own errors reach the pod"


async def large_datagrams_pass_both_ways(version: int, pod: socket.socket, server: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    for turn in range(3):  # the first one over IPv6 only returns a "packet too big"
        await loop.sock_sendto(pod, bytes([turn]) * 9000, (DIAL_OF[version], 8002))
    data, peer = await asyncio.wait_for(loop.sock_recvfrom(server, 10_000), 5)
    assert (len(data), peer[0]) == (9000, SOURCE_OF[version])
    for _ in range(3):
        await loop.sock_sendto(server, bytes(9000), peer)
    answer, dialled = await asyncio.wait_for(loop.sock_recvfrom(pod, 10_000), 5)
    assert (len(answer), dialled[0]) == (9000, DIAL_OF[version])


async def a_server_is_told_that_its_packets_are_too_large(
    lan: ExternalWorld, version: int, pod: socket.socket, server: socket.socket
) -> None:
    """The error comes from the address that the server sees."""
    loop, segment = asyncio.get_running_loop(), lan.frames()
    segment.lab.command(segment.target, "ip route flush cache")
    segment.lab.command(segment.target, "ip -6 route flush cache")
    level, choose, always = (socket.IPPROTO_IP, 10, 2) if version == 4 else (socket.IPPROTO_IPV6, 23, 2)
    await loop.sock_sendto(pod, b"?", (DIAL_OF[version], 8002))
    word, peer = b"", ("", 0)
    while word != b"?":
        word, peer = await asyncio.wait_for(loop.sock_recvfrom(server, 10_000), 5)
    server.setsockopt(level, choose, always)
    await loop.sock_connect(server, peer)
    too_large = bytes(1460 - (28 if version == 4 else 48) + 10)
    told, deadline = 0, time.monotonic() + 5
    while not told and time.monotonic() < deadline:
        try:
            await loop.sock_sendall(server, too_large)
            await asyncio.sleep(0.02)
        except OSError as failure:
            told = failure.errno or 0
    assert told == errno.EMSGSIZE
    errors = [each for each in segment.frames if each.source == SOURCE_OF[version] and is_error(each.content)]
    assert errors, "the error came from that address"


def is_error(frame: bytes) -> bool:
    """Return True for errors about packet size or delivery."""
    if frame[12:14] == b"\x08\x00":
        return frame[23] == socket.IPPROTO_ICMP and frame[34] == 3
    return frame[20] == socket.IPPROTO_ICMPV6 and frame[54] == 2


@BOTH
async def test_e1_e3_i1_i2_sctp_passes_both_ways_with_the_right_source(lan: ExternalWorld, of: Family) -> None:
    """With raw packets: this kernel has no SCTP sockets."""
    await lan.apply(replace(of.kep, ports=(("SCTP", 8000, 9000),), inbound=(("SCTP", 50, 60),)))
    lan.carry(3, of.first, of.second)
    segment, loop = lan.frames(), asyncio.get_running_loop()
    pod, other, server, stranger = (
        segment.lab.socket(each, FAMILY[of.version], socket.SOCK_RAW, socket.IPPROTO_SCTP)
        for each in (lan.namespace("b"), lan.namespace("d"), segment.target, segment.stranger)
    )

    async def heard(at: socket.socket, patience: float = 5.0) -> tuple[str, tuple[int, int]] | None:
        """Return the sender and the ports of an intact packet. For IPv6 the kernel passes no header."""
        try:
            packet, (seen, *_) = await asyncio.wait_for(loop.sock_recvfrom(at, 2000), patience)
        except TimeoutError:
            return None
        content = packet if of.version == 6 else packet[20:]
        assert content[8:12] == struct.pack("<I", _crc32c(content[:8] + bytes(4) + content[12:]))
        return seen, struct.unpack(">HH", content[:4])

    with pod, other, server, stranger:
        await loop.sock_sendto(pod, _init(1000, 8000), (of.dial, 0))
        assert await heard(server) == (of.second, (1000, 9000))
        await loop.sock_sendto(server, _init(2000, 50), (of.second, 0))
        assert await heard(pod) == (of.target, (2000, 60))
        await loop.sock_sendto(other, _init(1001, 8000), (of.dial, 0))  # no source of the service
        await loop.sock_sendto(pod, _init(1002, 8001), (of.dial, 0))  # no port of the service
        assert await heard(server, DENIED_WITHIN) is None
        await loop.sock_sendto(stranger, _init(2001, 50), (of.second, 0))
        assert await heard(pod, DENIED_WITHIN) is None


def _init(source_port: int, port: int) -> bytes:
    """Encode an SCTP packet that opens an association."""
    chunk = struct.pack(">BBHIIHHI", 1, 0, 20, 0x1234, 65535, 1, 1, 1)
    head = struct.pack(">HHI", source_port, port, 0)
    return head + struct.pack("<I", _crc32c(head + bytes(4) + chunk)) + chunk


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF
