"""Packet tests: sizes, forged senders, the route to the internet, established connections."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
import time
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from tarmac.datapath.interface import NodeNetworks, Remote
from tarmac.datapath.linux.naming import ROUTER_MAC, tunnel_mac
from tarmac.decide.addresses import mac_address
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules, ServiceFrontend
from tests.datapath.frames import arp_reply, udp_frame
from tests.datapath.test_datapath_contract import A6, B6, FAR, FAR6, NET, PLAIN, A, B, two_nodes, two_pods
from tests.datapath.worlds import RealWorld, nic, of_both, one_network

pytestmark = [pytest.mark.root]

DO_NOT_FRAGMENT = 2
HEADERS = {4: 28, 6: 48}


class Receiver:
    """A bound socket in a pod that collects datagrams."""

    def __init__(self, world: RealWorld, sandbox_id: str, family: int, port: int) -> None:
        self._socket = world.lab.socket(world.namespace(sandbox_id), family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self._socket.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))

    async def next(self, patience: float = 5.0) -> bytes | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                return await asyncio.get_running_loop().sock_recv(self._socket, 10000)
        return None

    def close(self) -> None:
        self._socket.close()


@contextlib.asynccontextmanager
async def receiver(world: RealWorld, sandbox_id: str, family: int, port: int) -> AsyncGenerator[Receiver]:
    made = Receiver(world, sandbox_id, family, port)
    try:
        yield made
    finally:
        made.close()


@of_both
@pytest.mark.parametrize(("address", "version"), [(FAR, 4), (FAR6, 6)])
async def test_packets_of_exactly_the_mtu_cross_the_tunnel_whole(real: RealWorld, address: str, version: int) -> None:
    await two_nodes(real)
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    level, option = ((0, 10), (41, 23))[version == 6]
    most = 1460 - HEADERS[version]
    async with receiver(real, "far", family, 9000) as there:
        with real.lab.socket(real.namespace("a"), family, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(level, option, DO_NOT_FRAGMENT)
            sender.connect((address, 9000))
            sender.send(bytes(most))
            assert len(await there.next() or b"") == most
            with pytest.raises(OSError) as refusal:
                sender.send(bytes(most + 1))
            assert refusal.value.errno == errno.EMSGSIZE


async def test_nodes_that_know_each_other_by_ipv6_carry_both_families(real: RealWorld) -> None:
    for number, other, far in ((1, 2, FAR), (2, 1, A)):
        remote = Remote(f"fd99::{other}", (f"{far}/32", f"{FAR6 if far == FAR else A6}/128"))
        state = replace(PLAIN, mtu=1600, remotes=(remote,))
        await real.node(number).apply(NodeNetworks((f"fd99::{number}",), (state,)))
    await real.pod(1, "a", [nic(NET, f"{A}/20", f"{A6}/64", mtu=1600)])
    await real.pod(2, "far", [nic(NET, f"{FAR}/20", f"{FAR6}/64", mtu=1600)])
    await real.serve("far", 80)
    assert [await real.reaches("a", address) for address in (FAR, FAR6)] == ["far", "far"]
    assert "mtu 1530" in real.lab.command(real.namespace("a"), "ip link show eth0")


async def test_pods_that_come_after_a_change_of_size_get_the_new_one(real: RealWorld) -> None:
    await real.node(1).apply(one_network(PLAIN))
    await real.node(1).apply(one_network(replace(PLAIN, mtu=1400)))
    await real.pod(1, "a", [nic(NET, f"{A}/20", mtu=1460)])
    assert "mtu 1400" in real.lab.command(real.namespace("a"), "ip link show eth0")


async def test_a_pod_forwards_nothing_and_believes_no_router(real: RealWorld) -> None:
    await two_pods(real)
    for control in ("ipv4/conf/eth0/forwarding", "ipv6/conf/eth0/forwarding", "ipv6/conf/eth0/accept_ra"):
        assert real.lab.command(real.namespace("a"), f"cat /proc/sys/net/{control}").strip() == "0"


async def test_a_network_that_wants_more_than_the_wire_carries_gets_what_fits(real: RealWorld) -> None:
    await real.node(1).apply(one_network(replace(PLAIN, mtu=8856)))
    await real.pod(1, "a", [nic(NET, f"{A}/20", mtu=8856)])
    assert "mtu 1550" in real.lab.command(real.namespace("a"), "ip link show eth0")


FORGERIES = {
    "an honest sender": (A, None, True),
    "another's address": ("10.128.0.77", None, False),
    "the gateway's address": ("10.128.0.1", None, False),
    "an address of the world": ("192.0.2.1", None, False),
    "another's hardware address": (A, "02:00:00:00:00:99", False),
    "an honest sender of IPv6": (A6, None, True),
    "another's address of IPv6": ("fd20:1::77", None, False),
    "another's hardware address with IPv6": (A6, "02:00:00:00:00:99", False),
}


@of_both
async def test_forged_senders_are_refused(real: RealWorld) -> None:
    await two_pods(real)
    async with receiver(real, "b", socket.AF_INET, 9000) as four, receiver(real, "b", socket.AF_INET6, 9000) as six:
        with real.lab.socket(real.namespace("a"), socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind(("eth0", 0))
            for name, (source, mac, passes) in FORGERIES.items():
                destination, there = (B6, six) if ":" in source else (B, four)
                mac = mac or mac_address(NET, f"{A}/20")
                wire.send(udp_frame(ROUTER_MAC, mac, source, destination, 9000, name.encode()))
                heard = await there.next(5.0 if passes else 0.3)
                assert heard == (name.encode() if passes else None), name


@of_both
async def test_a_claim_by_arp_changes_nothing(real: RealWorld) -> None:
    await two_pods(real)
    with real.lab.socket(real.namespace("a"), socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("eth0", 0))
        own = mac_address(NET, f"{A}/20")
        for claimed in (B, "10.128.0.1", "10.128.0.77"):
            wire.send(arp_reply(own, claimed, ROUTER_MAC, "10.128.0.1"))
    assert await real.reaches("a", B) == "b"
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    neighbours = real.lab.command(router, "ip neighbour")
    assert "10.128.0.77" not in neighbours
    assert all("PERMANENT" in line for line in neighbours.splitlines() if line.startswith("10."))


async def test_only_nodes_send_into_a_tunnel(real: RealWorld) -> None:
    await two_nodes(real)
    own = mac_address(NET, f"{A}/20")
    inner = udp_frame(tunnel_mac(4097, "198.18.0.2"), own, A, FAR, 9000, b"forged")
    forged = struct.pack(">BxxxI", 0x08, 4097 << 8) + inner
    async with receiver(real, "far", socket.AF_INET, 9000) as there:
        for place in (real.lab.machine(9), real.namespace("a")):
            with real.lab.socket(place, socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(forged, ("198.18.0.2", 4789))
                assert await there.next(0.3) is None
        with real.lab.socket(real.lab.machine(1), socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(forged, ("198.18.0.2", 4789))
            assert await there.next() == b"forged", "the packet itself is valid"


@of_both
async def test_pods_reach_the_world_behind_their_nodes_address(real: RealWorld) -> None:
    await two_pods(real)
    world = real.lab.machine(9)
    for family, address, to, expected in (
        (socket.AF_INET, A, "198.18.0.9", "198.18.0.1"),
        (socket.AF_INET6, A6, "fd99::9", "fd99::1"),
    ):
        with real.lab.socket(world, family, socket.SOCK_DGRAM) as outside:
            outside.bind((to, 9000))
            with real.lab.socket(real.namespace("a"), family, socket.SOCK_DGRAM) as inside:
                loop = asyncio.get_running_loop()
                inside.connect((to, 9000))
                assert inside.getsockname()[0] == address
                inside.send(b"out")
                async with asyncio.timeout(5):
                    said, who = await loop.sock_recvfrom(outside, 100)
                    await loop.sock_sendto(outside, b"back", who)
                    assert (said, who[0], await loop.sock_recv(inside, 100)) == (b"out", expected, b"back")


@pytest.mark.serial
async def test_a_network_without_the_internet_reaches_only_itself(real: RealWorld) -> None:
    await two_pods(real, replace(PLAIN, internet=False))
    with real.lab.socket(real.lab.machine(9), socket.AF_INET, socket.SOCK_STREAM) as outside:
        outside.bind(("198.18.0.9", 80))
        outside.listen()
        before = time.monotonic()
        assert await real.reaches("a", "198.18.0.9") is None
        assert time.monotonic() - before < 2, "an immediate error"
    assert await real.reaches("a", B) == "b"


async def test_addresses_that_nobody_has_are_not_looked_for_outside(real: RealWorld) -> None:
    await two_pods(real)
    real.lab.command(real.lab.machine(9), "ip address add 10.200.0.1/32 dev eth0")
    real.lab.command(real.lab.machine(1), "ip route add 10.200.0.1 via 198.18.0.9")
    with real.lab.socket(real.lab.machine(9), socket.AF_INET, socket.SOCK_STREAM) as outside:
        outside.bind(("10.200.0.1", 80))
        outside.listen()
        assert await real.reaches("a", "10.200.0.1", hope=False) is None


async def test_the_world_does_not_reach_pods_unasked(real: RealWorld) -> None:
    await two_pods(real)
    outside = real.lab.machine(9)
    for prefix in ("10.128.0.0/9", "169.254.64.0/18"):
        real.lab.command(outside, f"ip route add {prefix} via 198.18.0.1")
    real.lab.command(real.lab.machine(1), f"ip route add {A}/32 via 169.254.64.2 onlink dev {_uplink(real)}")
    loop = asyncio.get_running_loop()
    for address in (A, "169.254.64.2"):
        with real.lab.socket(outside, socket.AF_INET, socket.SOCK_STREAM) as client, pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await loop.sock_connect(client, (address, 80))


def _uplink(real: RealWorld) -> str:
    shown = real.lab.command(real.lab.machine(1), "ip -o link show type veth")
    return next(name for line in shown.splitlines() if (name := line.split()[1].partition("@")[0]).startswith("tu"))


@of_both
async def test_pods_reach_what_the_platform_offers_in_their_network(real: RealWorld) -> None:
    await two_pods(real, replace(PLAIN, rules={A: Rules(ingress=(), egress=())}))
    loop = asyncio.get_running_loop()
    for address in ("169.254.20.10", "fd00:53::10"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = await real.node(1).bind(NET, address, 53, "tcp")
        with listener, real.lab.socket(real.namespace("a"), family, socket.SOCK_STREAM) as client:
            async with asyncio.timeout(5):
                await loop.sock_connect(client, (address, 53))
                accepted, caller = await loop.sock_accept(listener)
            accepted.close()
            assert caller[0] == (A6 if ":" in address else A)


async def test_a_service_without_backends_refuses_at_once(real: RealWorld) -> None:
    ports = (ServiceFrontend("10.96.0.9", "TCP", 80, ()), ServiceFrontend("fd00:96::9", "UDP", 53, ()))
    await two_pods(real, replace(PLAIN, services=ports))
    loop = asyncio.get_running_loop()
    client = real.lab.socket(real.namespace("a"), socket.AF_INET, socket.SOCK_STREAM)
    with client, pytest.raises(ConnectionRefusedError):
        await loop.sock_connect(client, ("10.96.0.9", 80))
    with real.lab.socket(real.namespace("a"), socket.AF_INET6, socket.SOCK_DGRAM) as client:
        client.connect(("fd00:96::9", 53))
        client.send(b"?")
        with pytest.raises(ConnectionRefusedError):
            async with asyncio.timeout(5):
                await loop.sock_recv(client, 10)


async def test_the_node_itself_reaches_services_outside_its_networks(real: RealWorld) -> None:
    port = ServiceFrontend("10.96.0.1", "TCP", 443, (("198.18.0.9", 6443),))
    state = replace(PLAIN, services=(port,))
    await real.node(1).apply(
        NodeNetworks(("198.18.0.1",), (state,), (port, ServiceFrontend("10.96.0.2", "TCP", 443, ())))
    )
    await real.pod(1, "a", [nic(NET, f"{A}/20")])
    real.lab.command(real.lab.machine(1), "ip route add default via 198.18.0.9")
    loop = asyncio.get_running_loop()
    with real.lab.socket(real.lab.machine(9), socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind(("198.18.0.9", 6443))
        server.listen()
        for caller in (real.lab.machine(1), real.namespace("a")):
            with real.lab.socket(caller, socket.AF_INET, socket.SOCK_STREAM) as client:
                async with asyncio.timeout(5):
                    await loop.sock_connect(client, ("10.96.0.1", 443))
                    accepted, who = await loop.sock_accept(server)
                accepted.close()
                assert who[0] == "198.18.0.1"
    client = real.lab.socket(real.lab.machine(1), socket.AF_INET, socket.SOCK_STREAM)
    with client, pytest.raises(ConnectionRefusedError):
        await loop.sock_connect(client, ("10.96.0.2", 443))


async def test_a_service_spreads_its_clients(real: RealWorld) -> None:
    ports = (ServiceFrontend("10.96.0.9", "TCP", 80, ((A, 80), (B, 80))),)
    await two_pods(real, replace(PLAIN, services=ports))
    assert {await real.reaches("a", "10.96.0.9") for _ in range(40)} == {"a", "b"}


async def test_a_client_stays_with_its_backend_for_as_long_as_the_service_says(real: RealWorld) -> None:
    await two_pods(real)
    await real.pod(1, "c", [nic(NET, "10.128.0.12/20")])
    await real.serve("c", 80)
    one = ServiceFrontend("10.96.0.9", "TCP", 80, ((A, 80), (B, 80)), affinity=2)
    await real.node(1).apply(one_network(replace(PLAIN, services=(one,))))
    first = await real.reaches("c", "10.96.0.9")
    assert {await real.reaches("c", "10.96.0.9") for _ in range(15)} == {first}
    # a change of the service, and an additional backend, keep the assignment
    other = ServiceFrontend("10.96.0.8", "TCP", 80, ((A, 80),))
    grown = replace(one, backends=(*one.backends, ("10.128.0.12", 80)))
    await real.node(1).apply(one_network(replace(PLAIN, services=(grown, other))))
    assert {await real.reaches("c", "10.96.0.9") for _ in range(15)} == {first}
    seen: set[str | None] = set()
    deadline = time.monotonic() + 30
    while len(seen) < 2 and time.monotonic() < deadline:
        await asyncio.sleep(2.5)  # the kernel's own clock expires it
        seen.add(await real.reaches("c", "10.96.0.9"))
    assert len(seen) > 1


async def test_a_connection_ends_when_it_is_allowed_no_more_and_others_go_on(real: RealWorld) -> None:
    await two_pods(real)
    loop = asyncio.get_running_loop()
    async with receiver(real, "b", socket.AF_INET, 9000) as stays, receiver(real, "b", socket.AF_INET, 9001) as ends:
        clients = [real.lab.socket(real.namespace("a"), socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for client, port, there in zip(clients, (9000, 9001), (stays, ends), strict=True):
            client.connect((B, port))
            await loop.sock_sendall(client, b"before")
            assert await there.next() == b"before"
        await real.node(1).apply(
            one_network(replace(PLAIN, rules={B: Rules(ingress=(Allowance(ports=(PortRange("UDP", 9000),)),))}))
        )
        for client in clients:
            await loop.sock_sendall(client, b"after")
            client.close()
        assert await stays.next() == b"after"
        assert await ends.next(0.3) is None
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    remembered = real.lab.command(router, "cat /proc/self/net/nf_conntrack")
    assert "dport=9000" in remembered
    assert "dport=9001" not in remembered


async def test_connections_of_a_pod_are_forgotten_with_it(real: RealWorld) -> None:
    await two_pods(real)
    assert await real.reaches("a", B) == "b"
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    assert B in real.lab.command(router, "cat /proc/self/net/nf_conntrack")
    await real.node(1).detach("b")
    assert B not in real.lab.command(router, "cat /proc/self/net/nf_conntrack")
