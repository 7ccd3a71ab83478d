"""Attacks on announcements by BGP: hostile routers, strangers, pods, and packets that routers should not have led."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tarmac.datapath.linux.ingress.speaker import ask
from tarmac.datapath.speaker import SpeakerState
from tarmac.decide.reach.marks import node_marks
from tests.datapath.bgp_worlds import NODES, RANGES, ROUTED, ROUTED6, WAYS, Edge, session
from tests.datapath.frames import udp_frame
from tests.datapath.ingress_worlds import BASIC, PORT, PUBLIC1, Heard, IngressWorld, at, talking, without
from tests.datapath.routers import Router, routing, until
from tests.datapath.segment import INTERFACE, STRANGER, TARGET
from tests.datapath.test_ingress_attacks import ear
from tests.datapath.test_ingress_packets import syn
from tests.datapath.worlds import DENIED_WITHIN, PATIENCE

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]


async def test_a_hostile_router_gets_nothing_imported_and_nothing_passed_on(street: IngressWorld) -> None:
    edge = Edge(street)
    await edge.apply(*WAYS)
    before = {node: edge.routes(node) for node in (3, 4)}
    second = Router(street.lan.stranger, edge.lab.folder, STRANGER, {"three": NODES["three"]}, asn=65002)
    hostile = f"0.0.0.0/0 {ROUTED}/32 198.18.0.1/32 203.0.113.0/24 10.128.0.0/16 ::/0 {ROUTED6}/128"
    with routing(edge.router(told=hostile)) as router, routing(second):
        both = (session(3), session(3, name="second", address=STRANGER, asn=65002))
        await edge.speaker(3).ensure(SpeakerState("10.255.0.3", both))
        await edge.speaker(3).announce((ROUTED,))
        await edge.speak(4)
        await until(lambda: router.established() == {"three", "four"}, "sessions with the hostile router")
        await until(lambda: second.next_hops(ROUTED) == {NODES["three"]}, "the route at the second router")
        control = edge.lab.folder / "run-3" / "speaker.ctl"
        received = [line for line in ask(control, "show protocols all") if line.strip().startswith("Import updates:")]
        assert any(int(line.split()[2]) >= 4 for line in received), "it has announced them"
        known = {line.split()[0] for line in ask(control, "show route table all") if line[:1].isalnum() and "/" in line}
        assert known == {f"{ROUTED}/32"}, "only what this node announces"
        assert {node: edge.routes(node) for node in (3, 4)} == before
        assert "0.0.0.0/0" not in second.routes("three")


def visitor(edge: Edge) -> tuple[str, str]:
    """Give the stranger addresses outside the ranges of pools, to which nodes would send their answers elsewhere."""
    host, four, six = edge.street.lan.stranger, "192.168.122.150", "fd00:122::150"
    edge.lab.command(host, f"ip address add {four}/24 dev eth0")
    edge.lab.command(host, f"ip address add {six}/64 dev eth0 nodad")
    edge.lab.settle(host, [six])
    return four, six


async def reaches(
    edge: Edge, caller: Path, address: str, patience: float = DENIED_WITHIN, *, source: str = "0.0.0.0"
) -> bool:
    """Return True if a host answers at the port of BGP, be it with a refusal."""
    loop = asyncio.get_running_loop()
    with edge.lab.socket(caller, socket.AF_INET, socket.SOCK_STREAM) as client:
        client.bind((source, 0))
        try:
            async with asyncio.timeout(patience):
                await loop.sock_connect(client, (address, 179))
        except ConnectionError:
            return True
        except TimeoutError:
            return False
    return True


async def test_only_routers_reach_the_speaker_and_no_pod_speaks_for_the_node(street: IngressWorld) -> None:
    edge = Edge(street)
    await edge.apply(*WAYS)
    pod, (stranger, _) = street.real.namespace("d"), visitor(edge)
    with routing(edge.router()) as router:
        await until(router.control.exists, "the router")
        assert await reaches(edge, street.lan.stranger, NODES["three"], PATIENCE, source=stranger), "it is refused"
        assert await reaches(edge, pod, TARGET, PATIENCE), "without a session a router is a host like all others"
        await edge.speak(3)
        await until(lambda: router.established() == {"three"}, "the session")
        assert not await reaches(edge, pod, TARGET), "the router would take it for the node"
        assert not await reaches(edge, street.lan.stranger, NODES["three"], source=stranger)


async def test_sessions_need_the_password(street: IngressWorld) -> None:
    edge = Edge(street)
    with routing(edge.router(password="correct horse")) as router:
        await edge.speak(3, password="wrong")
        await edge.speak(4, password="correct horse")
        await until(lambda: router.established() == {"four"}, "the session with the password")
        await edge.speak(3, password="correct horse")
        await until(lambda: router.established() == {"three", "four"}, "the session after the correction")
        with pytest.raises(OSError, match="characters that BIRD cannot read"):
            await edge.speak(3, password='x"; ipv4 { import all; }; #')
        assert router.established() == {"three", "four"}


async def test_source_ranges_hold_for_clients_that_routers_lead_here(street: IngressWorld) -> None:
    edge, host = Edge(street), street.lan.stranger
    four, six = visitor(edge)
    await edge.apply(*without(without(WAYS, ROUTED, clients=(f"{four}/32",)), ROUTED6, clients=(f"{six}/128",)))
    for each in (host, street.lan.target):
        _lead(edge, each, 3)
    for address, allowed in ((ROUTED, four), (ROUTED6, six)):
        for protocol in ("TCP", "UDP"):
            async with talking(street.lan, host, address, PORT, protocol, allowed) as call:
                heard = await call()
                assert heard is not None, (address, protocol)
                assert heard.seen == allowed
            assert await street.called(address, protocol=protocol, hope=False) is None
    assert await street.called_by_node(3, ROUTED, hope=False) is None, "nor for the node"


async def test_a_client_whose_address_means_a_pod_is_masked_behind_a_router_too(street: IngressWorld) -> None:
    edge = Edge(street)
    await edge.apply(*without(WAYS, ROUTED, pods=("a",)))
    _lead(edge, street.lan.target, 3)
    inside = "10.128.0.77"
    edge.lab.command(street.lan.target, f"ip address add {inside}/32 dev eth0")
    edge.lab.command(edge.lab.machine(3), f"ip route add {inside}/32 via {TARGET}")
    assert await street.called(ROUTED, client=inside) == Heard("a", node_marks(at(1))[0])
    assert await street.called(ROUTED) == Heard("a", TARGET)


async def test_a_node_forwards_to_no_address_that_is_not_announced_by_routes(street: IngressWorld) -> None:
    """An address of the LAN is reached at its owner's hardware address alone, where the lease is asked."""
    edge = Edge(street)
    port = PORT + 7
    await edge.apply(*without(BASIC, PUBLIC1, pods=("c",), ports=(("UDP", port, 90),)), *WAYS)
    shown = edge.lab.command(edge.lab.machine(3), f"ip -o link show {INTERFACE}")
    machine = shown.partition("link/ether ")[2].split()[0]
    own, loop = "02:00:00:00:00:77", asyncio.get_running_loop()
    async with ear(street, street.real.namespace("c"), 90) as pod:
        with edge.lab.socket(street.lan.target, socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind(("eth0", 0))
            await loop.sock_sendall(wire, udp_frame(machine, own, STRANGER, PUBLIC1, port, b"past the lease"))
            assert await pod.next(DENIED_WITHIN) is None
            street.carry(3, PUBLIC1)
            async with talking(street.lan, street.lan.target, PUBLIC1, port, "UDP") as call:
                await call(DENIED_WITHIN)
            assert await pod.next() == (b"?", TARGET)


async def test_a_syn_that_a_router_led_here_leaves_no_state(street: IngressWorld) -> None:
    edge = Edge(street)
    await edge.apply(*without(WAYS, ROUTED, pods=("c",)))
    _lead(edge, street.lan.target, 3)
    assert await street.called(ROUTED) == Heard("c", TARGET)  # teaches neighbours
    before, host = street.tracked(3), _tracked(edge, 3)
    loop = asyncio.get_running_loop()
    with edge.lab.socket(street.lan.target, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        for port in range(20_000, 20_200):
            await loop.sock_sendto(raw, syn(port, ROUTED), (ROUTED, 0))
    async with talking(street.lan, street.lan.target, ROUTED) as call:
        assert await call(PATIENCE) == Heard("c", TARGET), "all SYNs before it have been seen"
        assert street.tracked(3) <= before + 1, "the gateway remembers none of 200 SYNs"
        assert _tracked(edge, 3) <= host + 1, "nor does its node"


def _tracked(edge: Edge, node: int) -> int:
    return int(edge.lab.command(edge.lab.machine(node), "sysctl -n net.netfilter.nf_conntrack_count"))


def _lead(edge: Edge, host: Path, node: int) -> None:
    """Have a host send packets for routed addresses to a node, as a router would."""
    for family, prefix, hop in (("-4", RANGES[0], f"192.168.122.{node}"), ("-6", RANGES[1], f"fd00:122::{node}")):
        edge.lab.command(host, f"ip {family} route add {prefix} via {hop}")
