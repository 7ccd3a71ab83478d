"""A pod or a machine with two interfaces on one Network responds at the addresses of both, under the rules of both."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest

from tarmac.datapath.interface import NodeNetworks, Remote
from tarmac.datapath.linux.naming import ROUTER_MAC
from tarmac.decide.addresses import mac_address
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules
from tests.datapath.frames import udp_frame
from tests.datapath.test_datapath_contract import A6, B6, FAR, FAR6, NET, PLAIN, A, B
from tests.datapath.test_packets import receiver
from tests.datapath.worlds import EVERYWHERE, RealWorld, nic, of_both

pytestmark = [pytest.mark.root]

SECOND, SECOND6 = "10.128.0.12", "fd20:1::12"
BOTH = (A, A6, SECOND, SECOND6)
WHOLE = ("10.128.0.0/9", "fd20:1::/48")
HERE = replace(PLAIN, remotes=(Remote("198.18.0.2", (f"{FAR}/32", f"{FAR6}/128")),))
THERE = replace(PLAIN, remotes=(Remote("198.18.0.1", tuple(f"{each}/{128 if ':' in each else 32}" for each in BOTH)),))


async def rule(real: RealWorld, rules: dict[str, Rules]) -> None:
    await real.node(1).apply(NodeNetworks(("198.18.0.1",), (replace(HERE, rules=rules),)))


async def begin(real: RealWorld) -> None:
    """Create `a` with two interfaces and `b` with one on a node, and `far` on another; all on one Network."""
    await rule(real, {})
    await real.node(2).apply(NodeNetworks(("198.18.0.2",), (THERE,)))
    two = [
        nic(NET, f"{A}/20", f"{A6}/64", leads=(*EVERYWHERE, *WHOLE)),
        nic(NET, f"{SECOND}/20", f"{SECOND6}/64", name="eth1", leads=WHOLE),
    ]
    await real.pod(1, "a", two)
    await real.pod(1, "b", [nic(NET, f"{B}/20", f"{B6}/64")])
    await real.pod(2, "far", [nic(NET, f"{FAR}/20", f"{FAR6}/64")])
    for name in ("a", "b", "far"):
        await real.serve(name, 80)


def sent(real: RealWorld, link: str) -> int:
    [found] = json.loads(real.lab.command(real.namespace("a"), f"ip -j -s link show {link}"))
    return found["stats64"]["tx"]["packets"]


@of_both
async def test_both_addresses_answer_neighbours_and_other_nodes(real: RealWorld) -> None:
    await begin(real)
    for caller in ("b", "far"):
        assert [await real.reaches(caller, each) for each in BOTH] == ["a"] * 4, caller
    assert [await real.reaches("a", each) for each in (B, B6, FAR, FAR6)] == ["b", "b", "far", "far"]


@of_both
async def test_both_answer_under_the_next_process_that_looks_after_the_node(real: RealWorld) -> None:
    await begin(real)
    await real.restart(1)
    await rule(real, {})
    assert [await real.reaches("far", each) for each in BOTH] == ["a"] * 4


async def test_answers_of_a_pod_leave_by_the_interface_that_was_asked(real: RealWorld) -> None:
    await begin(real)
    for address, own, other in (
        (A, "eth0", "eth1"),
        (A6, "eth0", "eth1"),
        (SECOND, "eth1", "eth0"),
        (SECOND6, "eth1", "eth0"),
    ):
        before = sent(real, own), sent(real, other)
        assert await real.reaches("far", address) == "a"
        assert (sent(real, own) > before[0], sent(real, other)) == (True, before[1]), address


async def test_connections_of_a_pod_leave_by_its_first_interface(real: RealWorld) -> None:
    await begin(real)
    before = sent(real, "eth1")
    assert [await real.reaches("a", each) for each in (B, FAR, FAR6)] == ["b", "far", "far"]
    assert sent(real, "eth1") == before
    with real.lab.socket(real.namespace("a"), socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind((SECOND, 0))
        bound.connect((B, 9000))
        bound.send(b"from the second address")
    assert sent(real, "eth1") == before + 1


@of_both
async def test_each_has_the_rules_of_its_own_interface(real: RealWorld) -> None:
    await begin(real)
    closed = Rules(ingress=())
    await rule(real, {SECOND: closed, SECOND6: closed})
    assert [await real.reaches("b", each, hope=each in (A, A6)) for each in BOTH] == ["a", "a", None, None]
    await rule(real, dict.fromkeys(BOTH, closed))
    for caller in ("b", "far"):
        assert [await real.reaches(caller, each, hope=False) for each in BOTH] == [None] * 4
    await rule(real, dict.fromkeys(BOTH, Rules(ingress=(Allowance(ports=(PortRange("TCP", 80),)),))))
    assert [await real.reaches("far", each) for each in BOTH] == ["a"] * 4


@of_both
async def test_neither_interface_speaks_for_anybody_else(real: RealWorld) -> None:
    await begin(real)
    async with receiver(real, "b", socket.AF_INET, 9000) as there:
        for link, own, other in (("eth0", A, SECOND), ("eth1", SECOND, A)):
            with real.lab.socket(real.namespace("a"), socket.AF_PACKET, socket.SOCK_RAW) as wire:
                wire.bind((link, 0))
                for source, passes in ((own, True), ("10.128.0.77", False), (other, real.machines)):
                    said = f"{source} by {link}".encode()
                    wire.send(udp_frame(ROUTER_MAC, mac_address(NET, f"{own}/20"), source, B, 9000, said))
                    assert await there.next(5.0 if passes else 0.3) == (said if passes else None), (link, source)
