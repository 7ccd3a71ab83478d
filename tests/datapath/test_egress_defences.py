"""Packet attacks on ExternalServices, each with and without the rule that defends against it.

`make soak` runs those without: they show that the attack works. Without the rule, unwanted packets are on the segment:
`expect_wrong` excludes them from the check.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from tarmac.datapath.linux.egress import egressdatapath
from tarmac.datapath.linux.naming import ROUTER_MAC, router_name
from tarmac.datapath.linux.nftables import NftablesFault
from tarmac.decide.addresses import mac_address
from tests.attacking import PACKETS_TWICE, Rule, without
from tests.datapath.egress_worlds import (
    ADDRESSES,
    DIAL,
    IPV4,
    IPV6,
    KEP,
    NETWORKS,
    ONE,
    POD,
    SOURCE1,
    SOURCE2,
    TWO,
    ExternalWorld,
    Family,
    Service,
    source,
    transit,
)
from tests.datapath.frames import udp_frame
from tests.datapath.segment import Segment, connected
from tests.datapath.test_egress_attacks import Ear, send, tunnelled
from tests.datapath.test_egress_packets import is_error, refusal
from tests.datapath.worlds import DENIED_WITHIN, PATIENCE, RealWorld, nic

pytestmark = [pytest.mark.root]

PORT = 8002
BOTH = pytest.mark.parametrize("of", [IPV4, IPV6], ids=["IPv4", "IPv6"])

NOT_OF_THIS_LINK = Rule("check", "fib saddr . iif oif missing drop")
NO_TUNNEL_OF_PODS = Rule("forward", "udp dport { 4789, 4800")
NODES_OWN = Rule("tunnel", "udp dport 4800 drop")
NOBODY_INSIDE = Rule("inside", "drop")
NONE_OF_OURS = Rule("first", "@sources")
LIVING = (Rule("passing", "ct mark != @live drop"), Rule("guard", "saddr != @live"))
LIVING_NEIGHBOURS = (Rule("output", "arp saddr ip != @live drop"), Rule("guard", "saddr != @live"))
COUNTED = Rule("refuse", "ct count over 2")
LIVE_SOURCES_ONLY = Rule("guard", "saddr != @live")
OWN_ERRORS = Rule("own", 'oifname "uplink" ct mark & 0x1ffff != 0')
UPLINKS_ONLY = Rule("forward", "saddr != ")
BY_EGRESS_ONLY = Rule("guard", "ct mark & 0x1ffff != 0 oifname !=")


def first_pod(of: Family) -> Service:
    """One pod may dial with datagrams, and may be called."""
    return replace(of.kep, sources=of.kep.sources[:1], ports=(("UDP", PORT, PORT),), inbound=(("UDP", 90, 90),))


def within(defended: bool) -> float:
    """Return the timeout for a packet that arrives only without the defence."""
    return DENIED_WITHIN if defended else PATIENCE


async def comes_to_be(condition: Callable[[], bool], defended: bool) -> bool:
    """Wait for a condition; return its last value."""
    deadline = time.monotonic() + within(defended)
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return condition()


def expect_wrong(segment: Segment) -> None:
    """Accept wrong frames, earlier and later ones."""
    segment.look_away()
    segment.frames.clear()


@BOTH
@PACKETS_TWICE
async def test_a2_a_pod_takes_the_address_of_its_neighbour(lan: ExternalWorld, of: Family, defended: bool) -> None:
    """On the same node and Network: elsewhere no rule would have the address."""
    assert isinstance(lan.world, RealWorld)
    await lan.apply(first_pod(of))
    lan.carry(3, of.first)
    segment, taken = lan.frames(), of.kep.sources[0].address
    with without(NOT_OF_THIS_LINK, unless=defended):
        await lan.world.pod(1, "thief", [nic(ONE, "10.128.0.3/20", "fd20:1::3/64", vni=NETWORKS[ONE])])
    ear = Ear(segment, segment.target, PORT)
    try:
        for sandbox, own in (("a", ADDRESSES["a"][0]), ("thief", "10.128.0.3")):
            frame = udp_frame(ROUTER_MAC, mac_address(ONE, f"{own}/20"), taken, of.dial, PORT, sandbox.encode())
            raw = segment.lab.inside(lan.namespace(sandbox), lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
            with raw:
                raw.bind(("eth0", 0))
                raw.send(frame)
        assert await ear.next() == (b"a", of.first), "the frame itself is valid"
        assert await ear.next(within(defended)) == (None if defended else (b"thief", of.first))
    finally:
        ear.close()


@BOTH
@pytest.mark.parametrize(
    ("pod", "defences"),
    [("b", [NO_TUNNEL_OF_PODS]), ("c", [NO_TUNNEL_OF_PODS, NODES_OWN])],
    ids=["of the node that may", "of another node"],
)
@PACKETS_TWICE
async def test_a3_a_pod_forges_a_datagram_of_the_tunnel(
    lan: ExternalWorld, of: Family, pod: str, defences: list[Rule], defended: bool
) -> None:
    """Its node corrects the outer source: pods of a permitted node are stopped only because they cannot send."""
    assert isinstance(lan.world, RealWorld)
    service = first_pod(of)
    with without(*defences, unless=defended):
        for node in (1, 2):
            await lan.world.restart(node)  # the next process rewrites all rules
            await lan.network(node)
        await lan.apply(service)
    lan.carry(3, of.first)
    segment = lan.frames()
    ear = Ear(segment, segment.target, PORT)
    try:
        forged = tunnelled(3, transit(service.sources[0]), of.target, PORT, b"forged")
        await send(segment, lan.namespace(pod), 3, forged)
        assert await ear.next(within(defended)) == (None if defended else (b"forged", of.first))
    finally:
        ear.close()


@BOTH
@pytest.mark.parametrize("machine", [2, 9], ids=["another node", "a stranger on the wire"])
@PACKETS_TWICE
async def test_a7_a_node_uses_what_belongs_to_another(
    lan: ExternalWorld, of: Family, machine: int, defended: bool
) -> None:
    service = first_pod(of)
    with without(NODES_OWN, unless=defended):
        await lan.apply(service)
    lan.carry(3, of.first)
    segment = lan.frames()
    there, here = Ear(segment, segment.target, PORT), Ear(segment, lan.namespace("a"), 90)
    try:
        out = tunnelled(3, transit(service.sources[0]), of.target, PORT, b"as a pod")
        await send(segment, segment.lab.machine(machine), 3, out)
        assert await there.next(within(defended)) == (None if defended else (b"as a pod", of.first))
        back = tunnelled(1, of.target, transit(service.sources[0]), 90, b"as a gateway")
        await send(segment, segment.lab.machine(machine), 1, back)
        assert await here.next(within(defended)) == (None if defended else (b"as a gateway", of.target))
    finally:
        there.close()
        here.close()


@BOTH
@PACKETS_TWICE
async def test_a5_a_stranger_outside_asks_an_address_for_a_service(
    lan: ExternalWorld, of: Family, defended: bool
) -> None:
    with without(NOBODY_INSIDE, unless=defended):
        await lan.apply(of.kep)
    lan.carry(3, of.first, of.second)
    segment, loop = lan.frames(), asyncio.get_running_loop()
    family = socket.AF_INET6 if of.version == 6 else socket.AF_INET
    answered = None
    with segment.lab.socket(segment.stranger, family, socket.SOCK_STREAM) as stranger:
        try:
            async with asyncio.timeout(within(defended)):
                await loop.sock_connect(stranger, (of.first, 22))
        except TimeoutError:
            pass
        except OSError as failure:
            answered = failure.errno
    assert answered == (None if defended else errno.ECONNREFUSED), "no response at all, not even a refusal"


@BOTH
@PACKETS_TWICE
async def test_a5_a_stranger_outside_has_one_of_our_addresses(lan: ExternalWorld, of: Family, defended: bool) -> None:
    """With rules that admit it, since the address was a server's before the class was extended to it."""
    service = replace(first_pod(of), targets={4: SOURCE2, 6: IPV6.second})
    segment, loop = lan.frames(), asyncio.get_running_loop()
    with without(NONE_OF_OURS, unless=defended):
        for node in (3, 4, 1, 2):
            state, more = service.state(node), of.kep.state(node).sources[1:]
            assert not await lan.world.node(node).external.apply(replace(state, sources=(*state.sources, *more)))
    lan.carry(3, of.first)
    length, extra = (64, " nodad") if of.version == 6 else (24, "")
    segment.lab.command(segment.stranger, f"ip address add {of.second}/{length} dev eth0{extra}")
    segment.lab.settle(segment.stranger, [of.second] if of.version == 6 else [])
    ear = Ear(segment, lan.namespace("a"), 90)
    family = socket.AF_INET6 if of.version == 6 else socket.AF_INET
    try:
        with segment.lab.socket(segment.stranger, family, socket.SOCK_DGRAM) as sender:
            sender.bind((of.second, 0))
            await loop.sock_sendto(sender, b"one of ours", (of.first, 90))
            assert await ear.next(within(defended)) == (None if defended else (b"one of ours", of.second))
    finally:
        ear.close()


@BOTH
@PACKETS_TWICE
async def test_a11_a_gateway_whose_lease_has_run_out_forwards(lan: ExternalWorld, of: Family, defended: bool) -> None:
    with without(*LIVING, unless=defended):
        await lan.apply(of.kep)
    lan.carry(3, of.first, seconds=3.0)  # long enough to connect on a busy machine
    segment = lan.frames()
    async with connected(segment, lan.namespace("a"), of.dial, 8000) as ask:
        assert await ask() == of.first
        await until_silent(lan)
        if not defended:
            expect_wrong(segment)
        assert await ask(within(defended)) == (None if defended else of.first)


@BOTH
@PACKETS_TWICE
async def test_a11_a_gateway_whose_lease_has_run_out_says_where_the_address_is(
    lan: ExternalWorld, of: Family, defended: bool
) -> None:
    with without(*LIVING_NEIGHBOURS[of.version == 6 :], unless=defended):
        await lan.apply(of.kep)
    lan.carry(3, of.first, seconds=1.0)
    segment = lan.frames()
    await until_silent(lan)
    if not defended:
        expect_wrong(segment)
    segment.lab.command(segment.stranger, "ip neigh flush dev eth0")
    await segment.said(segment.stranger, of.first, 80, hope=False)

    def is_known() -> bool:
        return "lladdr" in segment.lab.command(segment.stranger, f"ip neighbour show {of.first} dev eth0")

    assert await comes_to_be(is_known, defended) is not defended


async def until_silent(lan: ExternalWorld) -> None:
    """Wait until the gateway's kernel has let all leases expire."""
    deadline = time.monotonic() + 10
    while lan.world.node(3).external.carried():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@BOTH
@PACKETS_TWICE
async def test_a12_one_pod_takes_more_connections_than_there_are_for_all(
    lan: ExternalWorld, of: Family, defended: bool
) -> None:
    with without(COUNTED, unless=defended):
        await lan.apply(replace(of.kep, connections=2))
    lan.carry(3, of.first, of.second)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            ask = await stack.enter_async_context(connected(lan.frames(), lan.namespace("a"), of.dial, 8000))
            assert await ask() == of.first
        if defended:
            assert (await refusal(lan, "a", of.dial, socket.SOCK_STREAM))[0] == errno.ECONNREFUSED
        else:
            assert await lan.seen("a", of.dial) == of.first


@PACKETS_TWICE
async def test_a13_a_poisoned_rule_takes_another_ones_way(
    lan: ExternalWorld, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    """Text in place of an address, which would end its command and begin another."""
    if not defended:
        monkeypatch.setattr(egressdatapath, "check_forwarding", lambda _part: None)
    await lan.apply(KEP)
    lan.carry(3, SOURCE1, SOURCE2)
    assert await lan.seen("a") == SOURCE1
    state = KEP.state(1)
    (good,) = state.forwardings
    victim = f"{POD} . {DIAL} . tcp . 8000"
    poison = (
        f"10.128.0.9 . 169.254.192.9 . tcp . 8000 : 1 }} ; delete element inet tarmac-external dial4 {{ {victim} }} #"
    )
    worst = replace(good.departures[0], pod=poison, dialled="169.254.192.9")
    bad = replace(good, name="ns9/poison", departures=(worst,), arrivals=())
    failures = await lan.world.node(1).external.apply(replace(state, forwardings=(*state.forwardings, bad)))
    assert failures.keys() == ({"ns9/poison"} if defended else set[str]())
    assert await lan.seen("a", hope=defended) == (SOURCE1 if defended else None)


@PACKETS_TWICE
async def test_a13_a_rule_that_the_kernel_does_not_take_keeps_those_of_others_out(
    lan: ExternalWorld, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        monkeypatch.setattr(egressdatapath, "leaving_out", lambda parts, attempt: attempt(parts) or [])
    await lan.apply(KEP, 3, 4, 2)
    state = KEP.state(1)
    (good,) = state.forwardings
    odd: Any = "nobody's"  # a protocol that nft does not know
    unknown = replace(good.departures[0], protocol=odd, dialled="169.254.192.9")
    bad = replace(good, name="ns9/odd", departures=(unknown,), arrivals=())
    try:
        failed = set(await lan.world.node(1).external.apply(replace(state, forwardings=(bad, *state.forwardings))))
    except NftablesFault:
        failed = {"everything"}
    lan.carry(3, SOURCE1, SOURCE2)
    assert failed == {"ns9/odd" if defended else "everything"}
    assert await lan.seen("a", hope=defended) == (SOURCE1 if defended else None)


@BOTH
@PACKETS_TWICE
async def test_a14_nothing_leaves_under_a_transit_address_when_translation_is_gone(
    lan: ExternalWorld, of: Family, defended: bool
) -> None:
    with without(LIVE_SOURCES_ONLY, unless=defended):
        await lan.apply(of.kep)
    lan.carry(3, of.first, of.second)
    assert await lan.seen("a", of.dial) == of.first, "so the gateway knows the server's neighbour entry"
    segment = lan.frames()
    segment.lab.command(segment.lab.folder / "run-3/external/netns", "nft flush chain inet tarmac-external mask")
    assert await lan.seen("a", of.dial, protocol="UDP", hope=False) is None
    own = transit(of.kep.sources[0])
    leaked = await comes_to_be(lambda: any(each.source == own for each in segment.frames), defended)
    if not defended:
        expect_wrong(segment)
    assert leaked is not defended


@BOTH
@PACKETS_TWICE
async def test_a14_nothing_leaves_as_the_node_when_a_route_is_gone(
    lan: ExternalWorld, of: Family, defended: bool
) -> None:
    """The pod's node is on the segment itself, where the server would respond to the node."""
    service = Service([source("d", of.second)])
    with without(BY_EGRESS_ONLY, unless=defended):
        await lan.apply(service)
    lan.carry(3, of.second)
    assert await lan.seen("d", of.dial) == of.second
    segment = lan.frames()
    router = segment.lab.folder / "run-3/netns" / router_name(TWO)
    segment.lab.command(router, f"ip -{of.version} rule del fwmark 1 table 116")
    own = {4: "192.168.122.3", 6: "fd00:122::3"}[of.version]
    assert await lan.seen("d", of.dial, hope=not defended) == (None if defended else own)


@PACKETS_TWICE
async def test_a14_an_error_that_a_router_makes_leaves_under_a_transit_address(
    lan: ExternalWorld, defended: bool
) -> None:
    """A packet of the server is too large for the pod's link. The pod's node is on the segment.

    Two rules are against it: errors leave as their connection does, and an uplink accepts only its own address.
    """
    assert isinstance(lan.world, RealWorld)
    service = Service([source("d", SOURCE2)], ports=(("UDP", PORT, PORT),))
    with without(OWN_ERRORS, UPLINKS_ONLY, unless=defended):
        await lan.world.restart(3)  # the next process rewrites all rules
        await lan.network(3)
        await lan.apply(service)
    lan.carry(3, SOURCE2)
    segment, loop = lan.frames(), asyncio.get_running_loop()
    pod = segment.lab.socket(lan.namespace("d"), socket.AF_INET, socket.SOCK_DGRAM)
    with pod, segment.lab.socket(segment.target, socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("0.0.0.0", PORT))
        server.setsockopt(socket.IPPROTO_IP, 10, 3)  # IP_MTU_DISCOVER, IP_PMTUDISC_PROBE: never in fragments
        await loop.sock_sendto(pod, b"?", (DIAL, PORT))
        _, peer = await asyncio.wait_for(loop.sock_recvfrom(server, 100), PATIENCE)
        await loop.sock_sendto(server, bytes(1440), peer)
        await comes_to_be(lambda: any(is_error(each.content) for each in segment.frames), defended=False)
    told_by = {each.source for each in segment.frames if is_error(each.content)}
    if not defended:
        expect_wrong(segment)
    assert told_by == {SOURCE2 if defended else transit(service.sources[0])}


@BOTH
async def test_a4_a16_nothing_listens_where_addresses_and_connections_are(lan: ExternalWorld, of: Family) -> None:
    """No process is in these namespaces, so there is no relay to dial and no service to find."""
    await lan.apply(replace(of.kep, inbound=(("TCP", 80, 80), ("UDP", 80, 80))))
    lan.carry(3, of.first, of.second)
    assert await lan.seen("a", of.dial) == of.first
    lab, question = lan.frames().lab, "ss --no-header --listening --tcp --udp --raw --sctp --numeric"
    assert ":80 " in lab.command(lan.namespace("a"), question), "`ss` would show a listener"
    for node in (1, 3):
        routers = [lab.folder / f"run-{node}/netns" / router_name(each) for each in NETWORKS]
        for namespace in (lab.folder / f"run-{node}/external/netns", *routers):
            assert lab.command(namespace, question) == "", f"{namespace.name} of node {node}"
