"""Packet attacks on public addresses, each with and without the rule that defends against it.

`make soak` runs those without: they show that the attack works. Without the rule, unwanted packets may be on the
segment: `expect_wrong` excludes them from the check.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.datapath.interface import NetworkState
from tarmac.datapath.linux.ingress import speakerconfig
from tarmac.datapath.linux.ingress.speaker import ask
from tarmac.datapath.linux.naming import outside_mac
from tarmac.decide.reach.marks import node_marks
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules
from tests.attacking import PACKETS_TWICE, Rule
from tests.attacking import without as without_rules
from tests.datapath.bgp_worlds import NODES, ROUTED, WAYS, Edge
from tests.datapath.egress_worlds import ADDRESSES, NETWORKS, ONE, RANGES
from tests.datapath.frames import udp_frame
from tests.datapath.ingress_worlds import (
    BASIC,
    POD_PORT,
    PORT,
    PUBLIC1,
    PUBLIC2,
    PUBLIC6,
    PUBLIC7,
    Heard,
    IngressWorld,
    at,
    without,
)
from tests.datapath.routers import routing, until
from tests.datapath.segment import INTERFACE, STRANGER, TARGET, TARGET6
from tests.datapath.test_bgp_attacks import reaches, visitor
from tests.datapath.test_egress_defences import NO_TUNNEL_OF_PODS, comes_to_be, expect_wrong, within
from tests.datapath.test_ingress_attacks import BOTH, ONE_POD, ear, send, tunnelled
from tests.datapath.test_ingress_packets import syn
from tests.datapath.test_node_ports import DOOR, DOORS, OWN
from tests.datapath.test_node_ports import apply as apply_doors
from tests.datapath.worlds import PATIENCE

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]

LIVING_NEIGHBOURS = Rule("output", "arp saddr ip != @live drop")
LIVING_ADVERTISEMENTS = Rule("guard", "saddr != @live")
LIVING = Rule("open", "meta mark != @live drop")
NODES_OWN = Rule("tunnel", "udp dport 4805 drop")
UNTRANSLATED = Rule("untracked", "udp dport 4805 notrack")
MASKED = Rule("mask", "@masked")
STATELESS = Rule("first", "notrack")
NOT_AS_A_CLIENT = Rule("first", "saddr @served")
NOT_INSIDE_ANOTHER = Rule("first", "saddr ::ffff:0:0/96")
PERMITTED = {4: Rule("clients4", "drop"), 6: Rule("clients6", "drop")}
ROUTERS_ONLY = Rule("coming", "tcp dport 179 drop")
NO_BGP_OF_PODS = Rule("passing", "@sessions")
NO_BFD_OF_PODS = Rule("passing", "udp dport { 3784, 4784 } drop")
PACED = Rule("pace", "limit rate over")
SYNS, PACE = 300, 4


def version(address: str) -> int:
    return 6 if ":" in address else 4


@BOTH
@PACKETS_TWICE
async def test_t3_a_gateway_whose_lease_has_run_out_says_where_the_address_is(
    street: IngressWorld, address: str, client: str, stranger: str, defended: bool
) -> None:
    own = [LIVING_NEIGHBOURS] if version(address) == 4 else [LIVING_ADVERTISEMENTS]
    with without_rules(*own, unless=defended):
        await street.apply(*BASIC)
    street.carry(3, address, seconds=1.0)
    await until(lambda: not street.real.node(3).ingress.carried(), "the end of the lease")
    if not defended:
        expect_wrong(street.lan)
    lab = street.lan.lab
    lab.command(street.lan.stranger, "ip neigh flush dev eth0")
    with lab.socket(
        street.lan.stranger, socket.AF_INET6 if version(address) == 6 else socket.AF_INET, socket.SOCK_DGRAM
    ) as asking:
        await asyncio.get_running_loop().sock_sendto(asking, b"?", (address, PORT))

        def is_known() -> bool:
            return "lladdr" in lab.command(street.lan.stranger, f"ip neighbour show {address} dev eth0")

        assert await comes_to_be(is_known, defended) is not defended


@BOTH
async def test_t3_a_host_that_claims_an_address_is_found_and_no_node_believes_it(
    street: IngressWorld, address: str, client: str, stranger: str
) -> None:
    """Clients of the segment may: without keys nothing on a segment proves who has an address."""
    await street.apply(*without(BASIC, address, pods=("a",)))
    street.lan.asked_for.add(address)
    assert street.real.node(3).ingress.probe(address) == ""
    lab, length = street.lan.lab, "/64 dev eth0 nodad" if ":" in address else "/24 dev eth0"
    lab.command(street.lan.stranger, f"ip address add {address}{length}")
    lab.settle(street.lan.stranger, [address] if ":" in address else [])
    shown = lab.command(street.lan.stranger, "ip -o link show eth0")
    own = shown.partition("link/ether ")[2].split()[0]
    assert street.real.node(3).ingress.probe(address) == own
    found = await street.called_by_node(3, address)
    assert found is not None
    assert found.sandbox == "a", "the node is on that segment, and its packets keep to its own link"


@BOTH
@PACKETS_TWICE
async def test_t3_a_gateway_whose_lease_has_run_out_forwards(
    street: IngressWorld, address: str, client: str, stranger: str, defended: bool
) -> None:
    with without_rules(LIVING, unless=defended):
        await street.apply(*ONE_POD)
    street.carry(3, address, seconds=0.5)
    await until(lambda: not street.real.node(3).ingress.carried(), "the end of the lease")
    async with ear(street, street.real.namespace("c"), 90) as pod, outside_wire(street) as wire:
        wire.send(udp_frame(_hardware(3), "02:00:00:00:00:77", client, address, PORT, b"late"))
        assert await pod.next(within(defended)) == (None if defended else (b"late", client))


@PACKETS_TWICE
async def test_t4_a_stranger_reaches_the_speaker(street: IngressWorld, defended: bool) -> None:
    edge = Edge(street)
    await edge.apply(*WAYS)
    host, (own, _) = street.lan.stranger, visitor(edge)
    with without_rules(ROUTERS_ONLY, unless=defended):
        await edge.speak(3)
    assert await reaches(edge, host, NODES["three"], within(defended), source=own) is not defended


@PACKETS_TWICE
async def test_t4_a_router_announces_routes_to_a_node(
    street: IngressWorld, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    channel = speakerconfig._channel
    if not defended:
        monkeypatch.setattr(
            speakerconfig, "_channel", lambda *each: channel(*each).replace("import none", "import all")
        )
    edge = Edge(street)
    with routing(edge.router(told="198.18.0.1/32 0.0.0.0/0")) as router:
        await edge.speak(3, addresses=(ROUTED,))
        await until(lambda: router.next_hops(ROUTED) == {NODES["three"]}, "the node's own route")
        control = edge.lab.folder / "run-3" / "speaker.ctl"

        await until(lambda: _received(control) >= 2, "both routes of the router")

        def is_imported() -> bool:
            return "198.18.0.1/32" in "\n".join(ask(control, "show route table all"))

        assert await comes_to_be(is_imported, defended) is not defended


@PACKETS_TWICE
async def test_t4_a_router_without_the_password_opens_a_session(street: IngressWorld, defended: bool) -> None:
    edge = Edge(street)
    with routing(edge.router()) as router:
        await edge.speak(3, password="correct horse" if defended else "")
        if defended:
            # The second session shows that the router is up and tries.
            await edge.speak(4)
            await until(lambda: router.established() == {"four"}, "the session without a password")
        else:
            await until(lambda: router.established() == {"three"}, "the session")


@PACKETS_TWICE
async def test_t4_a_host_that_is_further_away_opens_a_session(street: IngressWorld, defended: bool) -> None:
    """Its packets arrive with a TTL below 255, as those of a router here that does not set it."""
    edge = Edge(street)
    with routing(edge.router(checks_ttl=False)) as router:
        await edge.speak(3, checks_ttl=defended)
        if defended:
            await edge.speak(4, checks_ttl=False)
        await until(lambda: router.established() == {"four" if defended else "three"}, "the session that is allowed")


@PACKETS_TWICE
async def test_t5_a_pod_opens_the_session_of_its_node(street: IngressWorld, defended: bool) -> None:
    edge = Edge(street)
    await edge.apply(*WAYS)
    with routing(edge.router()) as router:
        with without_rules(NO_BGP_OF_PODS, unless=defended):
            await edge.speak(3)
        await until(lambda: router.established() == {"three"}, "the session")
        assert await reaches(edge, street.real.namespace("d"), TARGET, within(defended)) is not defended


@pytest.mark.parametrize("port", [3784, 4784])
@PACKETS_TWICE
async def test_t5_a_pod_sends_bfd_as_its_node(street: IngressWorld, port: int, defended: bool) -> None:
    """A forged "down" would end the session of the node, whose address the router sees."""
    edge = Edge(street)
    await edge.apply(*WAYS)
    with without_rules(NO_BFD_OF_PODS, unless=defended):
        await edge.speak(3)
    async with ear(street, street.lan.target, port) as router, ear(street, street.lan.target, 9999) as other:
        with edge.lab.socket(street.real.namespace("d"), socket.AF_INET, socket.SOCK_DGRAM) as pod:
            loop = asyncio.get_running_loop()
            await loop.sock_sendto(pod, b"down", (TARGET, port))
            await loop.sock_sendto(pod, b"else", (TARGET, 9999))
            assert await other.next(PATIENCE) == (b"else", NODES["three"]), "the router sees the node"
            assert await router.next(within(defended)) == (None if defended else (b"down", NODES["three"]))


@BOTH
@PACKETS_TWICE
async def test_t5_a_pod_forges_a_datagram_of_the_tunnel(
    street: IngressWorld, address: str, client: str, stranger: str, defended: bool
) -> None:
    """Its node would correct the outer source, so other nodes would take the pod for the node."""
    with without_rules(NO_TUNNEL_OF_PODS, UNTRANSLATED, unless=defended):
        await street.real.restart(3)  # the next process rewrites all rules
        await street.network(3)
        await street.apply(*ONE_POD)
    async with ear(street, street.real.namespace("c"), 90) as pod:
        await send(street, street.real.namespace("d"), 2, tunnelled(2, 3, client, address, PORT, b"forged"))
        assert await pod.next(within(defended)) == (None if defended else (b"forged", client))


@BOTH
@pytest.mark.parametrize("machine", [1, 9], ids=["a node without an endpoint", "a stranger on the wire"])
@PACKETS_TWICE
async def test_t6_a_node_answers_as_an_address_that_it_serves_not(
    street: IngressWorld, address: str, client: str, stranger: str, machine: int, defended: bool
) -> None:
    with without_rules(NODES_OWN, unless=defended):
        await street.apply(*ONE_POD)
    street.carry(3, address)
    async with ear(street, street.lan.target, 700) as outside:
        forged = tunnelled(3, machine, address, client, 700, b"forged")
        await send(street, street.lan.lab.machine(machine), 3, forged)
        assert await outside.next(within(defended)) == (None if defended else (b"forged", address))


@BOTH
@PACKETS_TWICE
async def test_t7_a_client_has_the_address_of_a_pod_and_wants_its_rights(
    street: IngressWorld, address: str, client: str, stranger: str, defended: bool
) -> None:
    """A policy permits the pods of the Network, and nodes are none of them."""
    inside, ranges = ADDRESSES["c"][version(address) == 6], RANGES[version(address) == 6]
    lab, length = street.lan.lab, "/128 dev eth0 nodad" if ":" in address else "/32 dev eth0"
    lab.command(street.lan.target, f"ip address add {inside}{length}")
    lab.settle(street.lan.target, [inside] if ":" in inside else [])
    router = TARGET6 if ":" in address else TARGET
    with without_rules(MASKED, unless=defended):
        await street.apply(*(replace(each, router=router) for each in without(BASIC, address, pods=("a",))))
    street.carry(3, address)
    assert await street.called(address, client=inside) == Heard(
        "a", node_marks(at(1))[version(address) == 6] if defended else inside
    )
    rules = Rules(ingress=(Allowance((ranges,), (), (PortRange("TCP", POD_PORT, POD_PORT),)),))
    own = {ADDRESSES["a"][version(address) == 6]: rules}
    await street.network(1, ns1=NetworkState(ONE, NETWORKS[ONE], 1460, RANGES, rules=own))
    found = await street.called(address, client=inside, hope=not defended)
    assert found == (None if defended else Heard("a", inside))


@PACKETS_TWICE
async def test_t8_a_flood_of_syns_leaves_state_at_a_gateway(street: IngressWorld, defended: bool) -> None:
    with without_rules(STATELESS, unless=defended):
        await street.apply(*without(BASIC, PUBLIC1, pods=("c",)))
    street.carry(3, PUBLIC1)
    assert await street.called(PUBLIC1) == Heard("c", TARGET)  # fills neighbour tables
    before, loop = street.tracked(3), asyncio.get_running_loop()
    with street.lan.lab.socket(street.lan.target, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        for port in range(20_000, 20_000 + SYNS):
            await loop.sock_sendto(raw, syn(port), (PUBLIC1, 0))
    assert await street.called(PUBLIC1) == Heard("c", TARGET), "all SYNs before it have been seen"
    more = street.tracked(3) - before
    assert more <= 1 if defended else more >= SYNS


@PACKETS_TWICE
async def test_t8_a_flood_reaches_the_node_of_the_pod(street: IngressWorld, defended: bool) -> None:
    """Each SYN leaves an entry there: a limit of the pool drops those over it at the gateway."""
    with without_rules(PACED, unless=defended):
        await street.apply(*without(BASIC, PUBLIC1, pods=("c",), new_per_second=PACE))
    street.carry(3, PUBLIC1)
    assert await street.called(PUBLIC1) == Heard("c", TARGET)  # fills neighbour tables
    before, began, loop = street.tracked(2), time.monotonic(), asyncio.get_running_loop()
    with street.lan.lab.socket(street.lan.target, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        for port in range(20_000, 20_000 + SYNS):
            await loop.sock_sendto(raw, syn(port), (PUBLIC1, 0))
    seconds = time.monotonic() - began
    if defended:
        assert street.tracked(2) - before <= PACE * (seconds + 2)
    else:
        assert await comes_to_be(lambda: street.tracked(2) - before >= SYNS, defended)


@BOTH
@PACKETS_TWICE
async def test_t9_a_client_that_no_range_names_gets_through_whole_or_in_fragments(
    street: IngressWorld, address: str, client: str, stranger: str, defended: bool
) -> None:
    elsewhere = "fd00:123::/64" if ":" in address else "10.9.0.0/16"
    with without_rules(PERMITTED[version(address)], unless=defended):
        await street.apply(*without(BASIC, address, pods=("c",), ports=(("UDP", PORT, 90),), clients=(elsewhere,)))
    street.carry(3, address)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    async with ear(street, street.real.namespace("c"), 90) as pod:
        with street.lan.lab.socket(street.lan.target, family, socket.SOCK_DGRAM) as sender:
            loop = asyncio.get_running_loop()
            for size in (1, 1472 + 1480):
                # The first large one over IPv6 only returns a "packet too big".
                for _ in range(2):
                    await loop.sock_sendto(sender, b"x" * size, (address, PORT))
                heard = await pod.next(within(defended))
                assert heard == (None if defended else (b"x", client)) or (heard or (b"",))[0].startswith(b"x")
                assert defended is (heard is None)


@PACKETS_TWICE
async def test_t9_a_client_that_no_range_names_uses_the_node_port(street: IngressWorld, defended: bool) -> None:
    with without_rules(PERMITTED[4], unless=defended):
        await apply_doors(street, *without(DOORS, DOORS[0].address, pods=("a",), clients=(f"{STRANGER}/32",)))
    found = await street.called(OWN[3][0], DOOR, hope=not defended)
    assert found == (None if defended else Heard("a", TARGET))


@PACKETS_TWICE
async def test_t7_t9_an_ipv4_address_comes_inside_an_ipv6_one(street: IngressWorld, defended: bool) -> None:
    """A program of a pod would take it for that of a pod, and a range of clients may hold it."""
    ways = without(BASIC, PUBLIC6, pods=("c",), ports=(("UDP", PORT, 90),), clients=("::/0",))
    with without_rules(NOT_INSIDE_ANOTHER, unless=defended):
        await street.apply(*ways)
    street.carry(3, PUBLIC6)
    mapped = f"::ffff:{ADDRESSES['a'][0]}"
    async with ear(street, street.real.namespace("c"), 90) as pod, outside_wire(street) as wire:
        wire.send(udp_frame(_hardware(3), "02:00:00:00:00:77", mapped, PUBLIC6, PORT, b"mapped"))
        assert await pod.next(within(defended)) == (None if defended else (b"mapped", mapped))
        wire.send(udp_frame(_hardware(3), "02:00:00:00:00:77", TARGET6, PUBLIC6, PORT, b"client"))
        assert await pod.next() == (b"client", TARGET6)


@pytest.mark.parametrize(("address", "other"), [(PUBLIC2, PUBLIC1), (PUBLIC7, PUBLIC6)], ids=["IPv4", "IPv6"])
@PACKETS_TWICE
async def test_t6_a_packet_comes_in_from_outside_as_a_public_address(
    street: IngressWorld, address: str, other: str, defended: bool
) -> None:
    """To a pod of the gateway's own node: other nodes have a rule of their own against it."""
    with without_rules(NOT_AS_A_CLIENT, unless=defended):
        await street.apply(*without(BASIC, address, pods=("d",), ports=(("UDP", PORT, 90),)))
    street.carry(3, address)
    async with ear(street, street.real.namespace("d"), 90) as pod, outside_wire(street) as wire:
        wire.send(udp_frame(_hardware(3), "02:00:00:00:00:77", other, address, PORT, b"forged"))
        assert await pod.next(within(defended)) == (None if defended else (b"forged", other))


@asynccontextmanager
async def outside_wire(street: IngressWorld) -> AsyncGenerator[socket.socket]:
    """Open a raw socket of the server outside."""
    with street.lan.lab.socket(street.lan.target, socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("eth0", 0))
        yield wire


def _hardware(node: int) -> str:
    """Return the hardware address of a gateway's own link outside."""
    return outside_mac(f"ingress\0{at(node)}", INTERFACE)


def _received(control: Path) -> int:
    """Return the number of routes that the router has announced to a node."""
    lines = (line.split() for line in ask(control, "show protocols all") if line.strip().startswith("Import updates:"))
    return sum(int(words[2]) for words in lines)
