"""Forged router advertisements and redirects of a pod, in both families, have no effect."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from pathlib import Path

import pytest

from tarmac.datapath.linux.naming import ROUTER_MAC
from tarmac.decide.addresses import mac_address
from tests.datapath.frames import icmp_frame, udp_frame
from tests.datapath.test_datapath_contract import A6, B6, NET, A, B, two_pods
from tests.datapath.worlds import RealWorld, of_both

pytestmark = [pytest.mark.root]

OWN_MAC = mac_address(NET, f"{A}/20")
LINK_LOCAL = "fe80::bad"
ALL_NODES, ALL_MAC = "ff02::1", "33:33:00:00:00:01"
ECHO, ECHO6 = 8, 128


def redirect(to: str, source: str, way: str) -> bytes:
    """Encode a redirect of packets from `to` to an outside address."""
    original = udp_frame(ROUTER_MAC, OWN_MAC, to, "192.0.2.1", 53, b"")[14:]
    return icmp_frame(ROUTER_MAC, OWN_MAC, source, to, 5, socket.inet_aton(way) + original)


def redirect6(to: str, source: str) -> bytes:
    target, aim = socket.inet_pton(socket.AF_INET6, LINK_LOCAL), socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    return icmp_frame(ROUTER_MAC, OWN_MAC, source, to, 137, bytes(4) + target + aim)


def advertisement6(to: str, to_mac: str, source: str) -> bytes:
    """Encode a default router for half an hour, a prefix for addresses, and a smaller MTU."""
    prefix = struct.pack(">BBBBIII", 3, 4, 64, 0xC0, 1800, 1800, 0) + socket.inet_pton(
        socket.AF_INET6, "2001:db8:bad::"
    )
    body = struct.pack(">BBHII", 64, 0, 1800, 0, 0) + prefix + struct.pack(">BBHI", 5, 1, 0, 1280)
    return icmp_frame(to_mac, OWN_MAC, source, to, 134, body)


def neighbour6(claimed: str, to: str) -> bytes:
    """Encode an advertisement that `claimed` is at the pod's hardware address, overriding other entries."""
    address = socket.inet_pton(socket.AF_INET6, claimed)
    body = struct.pack(">I", 0x60000000) + address + b"\x02\x01" + bytes.fromhex(OWN_MAC.replace(":", ""))
    return icmp_frame(ROUTER_MAC, OWN_MAC, A6, to, 136, body)


def forgeries() -> list[bytes]:
    """Return all kinds of messages about routes, from real and forged senders, to the router and to the other pod."""
    found: list[bytes] = []
    for source in (A, "10.128.0.1", "0.0.0.0"):
        found += [redirect(to, source, A) for to in (B, "10.128.0.1")]
        found += [
            icmp_frame(ROUTER_MAC, OWN_MAC, source, to, 9, b"\x01\x02\x07\x08" + bytes(8)) for to in (B, "224.0.0.1")
        ]
    for source in (A6, LINK_LOCAL, "fe80::1", "fd20:1::1"):
        found += [redirect6(to, source) for to in (B6, "fd20:1::1", ALL_NODES)]
        found += [advertisement6(B6, ROUTER_MAC, source), advertisement6(ALL_NODES, ALL_MAC, source)]
    return found + [neighbour6(claimed, to) for claimed in (B6, "fd20:1::1") for to in (B6, "fd20:1::1", ALL_NODES)]


def ways(world: RealWorld, namespace: Path) -> str:
    """Return routes, learned routes of single destinations, addresses and MTUs, without timers."""
    commands = (
        "ip route show table all",
        "ip route show cache",
        "ip -6 route show table all",
        "ip -6 route show cache",
    )
    shown = [world.lab.command(namespace, command) for command in commands]
    shown.append(world.lab.command(namespace, "ip -o address show"))
    return "\n".join(shown)


async def heard(listening: socket.socket, patience: float) -> bytes | None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience):
            return await asyncio.get_running_loop().sock_recv(listening, 2000)
    return None


@of_both
async def test_routes_announced_by_a_pod_are_ignored(real: RealWorld) -> None:
    await two_pods(real)
    assert await real.reaches("a", B) == "b"
    assert await real.reaches("a", B6) == "b"
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    places = [router, real.namespace("b"), real.lab.machine(1)]
    before = [ways(real, place) for place in places]
    with real.lab.socket(real.namespace("a"), socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("eth0", 0))
        for frame in forgeries() * 3:
            wire.send(frame)
    assert await real.reaches("a", B) == "b"
    assert await real.reaches("b", A6) == "a"
    assert [ways(real, place) for place in places] == before
    neighbours = real.lab.command(router, "ip neighbour").splitlines()
    assert all("PERMANENT" in line for line in neighbours if B in line or B6 in line)


@of_both
@pytest.mark.parametrize("six", [False, True], ids=["IPv4", "IPv6"])
async def test_routes_announced_by_a_pod_do_not_reach_other_pods(real: RealWorld, six: bool) -> None:
    await two_pods(real)
    family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if six else (socket.AF_INET, socket.IPPROTO_ICMP)
    misleading = [redirect6(B6, A6), advertisement6(B6, ROUTER_MAC, A6)] if six else [redirect(B, A, A)]
    honest = icmp_frame(ROUTER_MAC, OWN_MAC, A6 if six else A, B6 if six else B, ECHO6 if six else ECHO, bytes(8))
    with (
        real.lab.socket(real.namespace("a"), socket.AF_PACKET, socket.SOCK_RAW) as wire,
        real.lab.socket(real.namespace("b"), family, socket.SOCK_RAW, protocol) as listening,
    ):
        wire.bind(("eth0", 0))
        listening.setblocking(False)
        for frame in (*misleading, honest):
            wire.send(frame)
        got = await heard(listening, 5)
        assert got is not None
        assert got[0 if six else 20] == (ECHO6 if six else ECHO), "only the honest one arrives"


CONTROLS = [
    f"{family}/conf/{{link}}/{name}"
    for family in ("ipv4", "ipv6")
    for name in ("accept_redirects", "accept_source_route")
] + ["ipv6/conf/{link}/accept_ra"]


def pairs(world: RealWorld, namespace: Path) -> list[str]:
    """Return the names of virtual Ethernet links."""
    shown = world.lab.command(namespace, "ip -o link show type veth").splitlines()
    return [line.split(": ")[1].partition("@")[0] for line in shown]


async def test_controls_say_the_same_on_every_link_of_a_network(real: RealWorld) -> None:
    await two_pods(real)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    machine, pod = real.lab.machine(1), real.namespace("b")
    links = [(router, "all"), (router, "default"), (pod, "all"), (pod, "eth0")]
    links += [(router, link) for link in pairs(real, router)]
    links += [(machine, link) for link in pairs(real, machine) if link != "eth0"]  # the node's ends of uplinks
    assert len(links) == 4 + 3 + 1
    for place, link in links:
        for control in CONTROLS:
            said = real.lab.command(place, f"cat /proc/sys/net/{control.format(link=link)}").strip()
            assert said == "0", (place.name, link, control)
    for link in ("all", "default"):
        assert real.lab.command(router, f"cat /proc/sys/net/ipv4/conf/{link}/send_redirects").strip() == "0"
