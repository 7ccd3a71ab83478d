"""Port probes in packets between two namespaces: a firewall that drops a port is named with port and direction."""

from __future__ import annotations

import asyncio
import base64
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tarmac.agent.portprobes import answering, asking
from tarmac.agent.portprobes.answering import PortAnswers
from tarmac.agent.portprobes.asking import PortProbe, peers_of
from tarmac.agent.portprobes.portmessages import REQUEST, PortMessage, PortSeals
from tarmac.agent.portprobes.rawudp import RawUdp
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.api.networking.tunnels import ClosedTunnel
from tarmac.api.shared import ObjectMeta
from tarmac.apps.host.portcheck import remedy
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tests.datapath.lab import Lab

pytestmark = [pytest.mark.root]

FIREWALL = "table inet firewall { chain in { type filter hook input priority -10 ; %s ; } ; }"


class Pair:
    """Node 1, which joins, and node 2, whose agent answers. `location` is that of node 2; node 1 is at lhr."""

    def __init__(self, lab: Lab, *, six: bool = False) -> None:
        self.lab, self.clock, self.randomness = lab, SystemClock(), Randomness()
        self.seals = {number: PortSeals(bytes([number]) * 32) for number in (1, 2)}
        self.addresses = {number: f"fd99::{number}" if six else f"198.18.0.{number}" for number in (1, 2)}
        self.known: dict[str, TunnelEndpoint] = {"n1": self.endpoint(1)}
        for number in (1, 2):
            lab.carrier(lab.machine(number))

    def endpoint(self, number: int, location: str = "lhr") -> TunnelEndpoint:
        key = base64.b64encode(self.seals[number].public).decode()
        return TunnelEndpoint(
            ObjectMeta(f"n{number}"), addresses=[self.addresses[number]], location=location, ready=True, probes=True,
            public_key=key,
        )  # fmt: skip

    def opened(self, address: str) -> RawUdp:
        number = next(each for each, own in self.addresses.items() if own == address)
        return self.lab.inside(self.lab.machine(number), lambda: RawUdp(address))

    def answers(self) -> PortAnswers:
        addresses = lambda: [self.addresses[2]]  # noqa: E731
        return PortAnswers(lambda: self.known, addresses, self.seals[2], self.clock, self.randomness)

    async def probe(self, location: str) -> list[ClosedTunnel]:
        peers = peers_of(self.endpoint(1), {"n2": self.endpoint(2, location)})
        made = self.opened(self.addresses[1])
        try:
            return await PortProbe(self.seals[1], made, peers, self.clock, self.randomness).run()
        finally:
            made.close()

    def drop(self, number: int, rule: str) -> None:
        words = ["nsenter", f"--net={self.lab.machine(number)}", "nft", FIREWALL % rule]
        subprocess.run(words, check=True, timeout=10)


@pytest.fixture(params=[False, True], ids=["IPv4", "IPv6"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    lab = Lab()
    try:
        yield Pair(lab, six=request.param)
    finally:
        lab.close()


@pytest.fixture
async def probed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    """Both nodes, with an agent on the second one."""
    monkeypatch.setattr(answering, "RawUdp", pair.opened)
    monkeypatch.setattr(asking, "TIMEOUT", 3.0)
    async with background(pair.answers().run(), "port answers"):
        yield pair


@pytest.mark.parametrize("location", ["lhr", "sea"])
async def test_open_ports_have_no_finding(probed: Pair, location: str) -> None:
    began = probed.clock.monotonic()
    assert await probed.probe(location) == []
    assert probed.clock.monotonic() - began < asking.TIMEOUT, "it ends as soon as both directions are known"


async def test_a_port_that_the_peer_drops_is_closed_to_it(probed: Pair) -> None:
    probed.drop(2, "udp dport 4789 drop")
    [closed] = await probed.probe("lhr")
    assert str(closed) == "4789/udp to n2 is closed"
    assert remedy(closed, "n1").endswith("let UDP port 4789 pass from n1 to n2 in the firewalls between them")
    assert await probed.probe("sea") == [], "nodes of different Locations need 4802 alone"


async def test_a_port_that_this_node_drops_is_closed_from_the_peer(probed: Pair) -> None:
    probed.drop(1, "udp dport 4789 drop")
    assert await probed.probe("lhr") == [ClosedTunnel("n2", "from", 4789)]
    assert await probed.probe("sea") == []


@pytest.mark.parametrize(("number", "direction"), [(1, "from"), (2, "to")])
async def test_the_encrypted_port_is_judged_between_locations(probed: Pair, number: int, direction: str) -> None:
    probed.drop(number, "udp dport 4802 drop")
    assert [str(each) for each in await probed.probe("sea")] == [f"4802/udp {direction} n2 is closed"]
    assert await probed.probe("lhr") == []


async def test_a_peer_that_drops_all_packets_is_closed_both_ways(probed: Pair) -> None:
    probed.drop(2, "udp dport { 4789, 4802 } drop")
    [closed] = await probed.probe("sea")
    assert closed.direction == "to or from"
    assert "between n1 and n2, in both directions" in remedy(closed, "n1")


async def test_a_firewall_that_admits_answers_only_leaves_the_encrypted_port_open(probed: Pair) -> None:
    probed.drop(1, "ct state established,related accept ; udp dport { 4789, 4802 } drop")
    assert await probed.probe("sea") == [], "as WireGuard, which this node may open alone"
    assert await probed.probe("lhr") == [ClosedTunnel("n2", "from", 4789)], "VXLAN sends from other ports"


async def test_a_peer_with_a_key_that_is_none_spoils_no_probe_of_another(probed: Pair) -> None:
    hostile = probed.endpoint(2)
    hostile.metadata.name, hostile.public_key = "n9", base64.b64encode(bytes(32)).decode()
    peers = peers_of(probed.endpoint(1), {"n2": probed.endpoint(2), "n9": hostile})
    made = probed.opened(probed.addresses[1])
    try:
        found = await PortProbe(probed.seals[1], made, peers, probed.clock, probed.randomness).run()
        assert found == [ClosedTunnel("n9", "to or from", 4789)]
    finally:
        made.close()


async def test_a_port_that_the_tunnels_of_the_kernel_own_is_probed_as_well(probed: Pair) -> None:
    for number in (1, 2):
        probed.lab.command(probed.lab.machine(number), "ip link add tun type vxlan id 7 dstport 4789 dev eth0")
        probed.lab.command(probed.lab.machine(number), "ip link set tun up")
    assert await probed.probe("lhr") == []


async def test_neither_strangers_nor_recorded_requests_get_an_answer(probed: Pair) -> None:
    assert await probed.probe("lhr") == [], "the agent answers"
    stranger, now = PortSeals(bytes([9]) * 32), int(probed.clock.now())
    requests = [
        (stranger, PortMessage(REQUEST, 4789, 4802, now, bytes(8), stranger.public)),
        (probed.seals[1], PortMessage(REQUEST, 4789, 4802, now - 120, bytes(8), probed.seals[1].public)),
        (probed.seals[1], PortMessage(REQUEST, 4802, 4802, now, bytes(8), probed.seals[1].public)),
        (probed.seals[1], PortMessage(REQUEST, 4789, 53, now, bytes(8), probed.seals[1].public)),
    ]
    good = PortMessage(REQUEST, 4789, 4802, now, b"the good", probed.seals[1].public)
    made = probed.opened(probed.addresses[1])
    try:
        for seals, request in (*requests, (probed.seals[1], good)):
            made.send(seals.sealed(request, probed.seals[2].public), 4000, probed.addresses[2], 4789)
        # The agent reads in order: the answer to the last one shows that all of them were read.
        answers = await _received(made, 1)
        assert [probed.seals[1].opened(each, [probed.seals[2].public]) for each in answers] == [
            good._replace(kind=2, sender=probed.seals[2].public)
        ]
    finally:
        made.close()


async def _received(made: RawUdp, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            await asyncio.sleep(0.05)
            found += [each.content for each in made.received(100)]
    return found


def test_other_traffic_does_not_reach_the_raw_socket(pair: Pair) -> None:
    family = socket.AF_INET6 if ":" in pair.addresses[1] else socket.AF_INET
    made = pair.opened(pair.addresses[2])
    try:
        with pair.lab.socket(pair.lab.machine(1), family, socket.SOCK_DGRAM) as sender:
            for port, content in ((4789, b"TmPx" + bytes(86)), (53, b"TmPp" + bytes(86)), (4802, b"TmPp the last")):
                sender.sendto(content, (pair.addresses[2], port))
        found = list(pair.lab.inside(pair.lab.machine(2), lambda: asyncio.run(_received(made, 1))))
        assert found == [b"TmPp the last"]
    finally:
        made.close()


async def test_the_socket_is_open_for_a_limited_time_and_again_for_a_new_node(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[RawUdp] = []

    def open_socket(address: str) -> RawUdp:
        opened.append(pair.opened(address))
        return opened[-1]

    monkeypatch.setattr(answering, "RawUdp", open_socket)
    monkeypatch.setattr(answering, "OPEN_SECONDS", 0.3)
    monkeypatch.setattr(answering, "CHECK_INTERVAL", 0.05)
    async with background(pair.answers().run(), "port answers"):
        await _until(lambda: len(opened) == 1 and opened[0].is_closed)
        monkeypatch.setattr(asking, "TIMEOUT", 1.0)
        assert [each.direction for each in await pair.probe("lhr")] == ["to or from"]
        assert len(opened) == 1, "known nodes do not open it"
        pair.known["n3"] = pair.endpoint(1)
        pair.known["n3"].public_key = base64.b64encode(bytes([7]) * 32).decode()
        await _until(lambda: len(opened) == 2)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.02)
