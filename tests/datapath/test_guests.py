"""Packet tests of machines: permitted frames of a guest, its neighbours on the link, and restarts of its process."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from dataclasses import replace

import pytest

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.network.dialing import PodDialer
from tarmac.agent.probes.checks import Checks
from tarmac.api.networking.interfaces import encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.datapath.interface import Traffic
from tarmac.datapath.linux.naming import ROUTER_MAC, link_local
from tarmac.decide.addresses import mac_address
from tarmac.decide.reach.policyrules import Rules
from tarmac.runtimes.fake import FakeRuntime
from tests.datapath.frames import icmp_frame, udp_frame
from tests.datapath.test_datapath_contract import A6, B6, NET, PLAIN, A, B, two_pods
from tests.datapath.worlds import RealWorld, nic, one_network

pytestmark = [pytest.mark.root]
machines = pytest.mark.parametrize("real", ["machines"], indirect=True)

OWN_MAC = mac_address(NET, f"{A}/20")
BROADCAST = "ff:ff:ff:ff:ff:ff"
SOLICITATION = 135


@pytest.mark.parametrize("address", [A, A6])
async def test_pods_and_machines_reach_each_other(real: RealWorld, address: str) -> None:
    await real.node(1).apply(one_network(PLAIN))
    await real.machine(1, "vm", [nic(NET, f"{A}/20", f"{A6}/64")])
    await real.pod(1, "pod", [nic(NET, f"{B}/20", f"{B6}/64")])
    await real.serve("vm", 80)
    await real.serve("pod", 80)
    assert await real.reaches("pod", address) == "vm"
    assert await real.reaches("vm", B if address == A else B6) == "pod"


@machines
async def test_a_machine_goes_on_under_another_process(real: RealWorld) -> None:
    await two_pods(real)
    loop = asyncio.get_running_loop()
    with real.lab.socket(real.namespace("a"), socket.AF_INET, socket.SOCK_STREAM) as client:
        await loop.sock_connect(client, (B, 80))
        successor = await real.restart(1)
        await successor.apply(one_network(PLAIN))
        await loop.sock_sendall(client, b"?")
        assert await loop.sock_recv(client, 10) == b"b", "a connection from before continues"
    await real.attach_again(1, "b", [nic(NET, f"{B}/20", f"{B6}/64")])
    assert await real.reaches("a", B6) == "b"
    assert successor.sandboxes() == {"a", "b"}
    assert await successor.sweep({"a"}) == ["b"]
    assert await real.reaches("a", B, hope=False) is None


@machines
async def test_a_machine_that_starts_again_has_the_network_it_had(real: RealWorld) -> None:
    await two_pods(real)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    before = real.lab.command(router, "ip neighbour show nud permanent")
    real.power_off("b")
    assert await real.reaches("a", B, hope=False) is None
    assert real.lab.command(router, "ip neighbour show nud permanent") == before
    await real.machine(1, "b", [nic(NET, f"{B}/20", f"{B6}/64")])
    assert await real.reaches("a", B) == "b"
    assert await real.reaches("a", B6) == "b"


@pytest.mark.serial
@machines
async def test_a_guest_is_answered_at_once_for_everybody_else_of_its_subnet(real: RealWorld) -> None:
    await two_pods(real)
    began = time.monotonic()
    assert await real.reaches("a", B) == "b"
    assert time.monotonic() - began < 0.4, "the kernel delayed the response"
    shown = real.lab.command(real.namespace("a"), f"ip neighbour show {B}")
    assert ROUTER_MAC in shown, "the router answers for the other machine"
    assert await real.reaches("a", "10.128.0.77", hope=False) is None
    assert ROUTER_MAC not in real.lab.command(real.namespace("a"), "ip neighbour show 10.128.0.77")


@machines
async def test_traffic_is_counted_as_the_guest_does(real: RealWorld) -> None:
    await two_pods(real)
    before = (await real.node(1).traffic())["b"]
    with real.lab.socket(real.namespace("a"), socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((B, 9000))
        for _ in range(20):
            sender.send(bytes(1000))
    while (after := (await real.node(1).traffic())["b"]).received < before.received + 20_000:
        await asyncio.sleep(0)
    assert after.transmitted - before.transmitted < 2_000 + 20 * 600, "at most errors of the closed port"
    assert before + Traffic(1, 2) == Traffic(before.received + 1, before.transmitted + 2)


@machines
@pytest.mark.parametrize("address", [B, B6])
async def test_probes_and_forwarded_ports_come_from_inside_its_network(real: RealWorld, address: str) -> None:
    closed = replace(PLAIN, rules={each: Rules(ingress=(), egress=()) for each in (B, B6)})
    await two_pods(real, closed)
    interfaces = encode_interfaces([nic(NET, f"{B}/20", f"{B6}/64")])
    raw = {
        "metadata": {"name": "b", "namespace": "shop", "uid": "b", "annotations": {ANNOTATION_INTERFACES: interfaces}},
        "spec": {},
    }
    dial = PodDialer(real.node(1))
    with await dial(raw, address, 80, 5.0) as forwarded:
        await asyncio.get_running_loop().sock_sendall(forwarded, b"?")
        assert await asyncio.get_running_loop().sock_recv(forwarded, 10) == b"b"
    checks = Checks(FakeRuntime(), dial)
    for port, result in ((80, "success"), (9, "failure")):
        found = await checks.check(AgentPod(raw), {"name": "machine"}, "", {"tcpSocket": {"port": port}}, address)
        assert found.result == result


DHCP = {
    "discover": udp_frame(BROADCAST, OWN_MAC, "0.0.0.0", "255.255.255.255", 67, b"?"),
    "request": udp_frame(ROUTER_MAC, OWN_MAC, A, B, 67, b"?"),
    "offer": udp_frame(ROUTER_MAC, OWN_MAC, A, B, 68, b"?"),
    "solicit": udp_frame(ROUTER_MAC, OWN_MAC, A6, B6, 547, b"?"),
    "advertise": udp_frame(ROUTER_MAC, OWN_MAC, A6, B6, 546, b"?"),
}


@machines
async def test_dhcp_of_a_guest_reaches_nobody(real: RealWorld) -> None:
    await two_pods(real)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    places = [(router, 67), *((real.namespace("b"), port) for port in (67, 68, 546, 547))]
    listening = [_bound(real, *place) for place in places]
    honest = _bound(real, real.namespace("b"), 9000)
    with real.lab.socket(real.namespace("a"), socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("eth0", 0))
        for frame in (*DHCP.values(), udp_frame(ROUTER_MAC, OWN_MAC, A6, B6, 9000, b"honest")):
            wire.send(frame)
    async with asyncio.timeout(5):
        assert await asyncio.get_running_loop().sock_recv(honest, 100) == b"honest"
    for each in listening:
        with pytest.raises(BlockingIOError):
            each.recv(100)
    for each in (*listening, honest):
        each.close()


def _bound(real: RealWorld, place: object, port: int) -> socket.socket:
    made = real.lab.socket(place, socket.AF_INET6, socket.SOCK_DGRAM)  # type: ignore[arg-type]
    made.bind(("::", port))
    return made


def solicitation(source: str) -> bytes:
    """Encode a solicitation of the router's address from `source`, with its hardware address."""
    target = socket.inet_pton(socket.AF_INET6, "fd20:1::1")
    body = bytes(4) + target + b"\x01\x01" + bytes.fromhex(OWN_MAC.replace(":", ""))
    return icmp_frame(ROUTER_MAC, OWN_MAC, source, "fd20:1::1", SOLICITATION, body)


@machines
async def test_a_guest_cannot_fill_the_nodes_table_of_neighbours(real: RealWorld) -> None:
    await two_pods(real)
    (router,) = (real.lab.folder / "run-1" / "netns").iterdir()
    with real.lab.socket(real.namespace("a"), socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("eth0", 0))
        for number in range(500):
            wire.send(solicitation(socket.inet_ntop(socket.AF_INET6, struct.pack(">QQ", 0xFE80 << 48, number + 99))))
            if number % 50 == 0:
                await asyncio.sleep(0)
        wire.send(solicitation(link_local(OWN_MAC)))
    assert await real.reaches("a", B6) == "b"
    known = real.lab.command(router, "ip -6 neighbour").split()
    assert [each for each in known if each.startswith("fe80::") and each not in _OWN] == []


_OWN = {"fe80::1", link_local(mac_address(NET, f"{A}/20")), link_local(mac_address(NET, f"{B}/20"))}
