"""Instances of encrypted Networks: no plaintext packet on the wire, for every failure.

Node 1 is in one Location, nodes 2 and 3 are in another. Each has a pod on each of three Networks.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tarmac.datapath.egress import EgressState, EncryptedPeer, InstanceTunnels
from tarmac.datapath.interface import NetworkState, NodeNetworks, Remote
from tarmac.datapath.linux import LinuxDatapath
from tarmac.datapath.linux.egress import encryption, wireguard
from tarmac.datapath.linux.egress.encryption import TABLE
from tarmac.datapath.linux.egress.wireguard import WireGuardPrograms
from tarmac.runtimes.parts import PartMissing, find_program
from tests.datapath.wireguard import kernel_has_driver
from tests.datapath.worlds import RealWorld, nic

pytestmark = [pytest.mark.root]

CITY = {1: "ams", 2: "dfw", 3: "dfw"}
NUMBERS = {"between": 4097, "always": 4098, "never": 4099}
PLAIN, ENCRYPTED = 4789, 4802


def address(number: int) -> str:
    return f"198.18.0.{number}"


def own(network: str, number: int) -> str:
    """Return the address of a node's pod on a network."""
    return f"10.{NUMBERS[network] - 4000}.{number}.5"


class Cities:
    """The nodes, their keys, and a capture on the wire between them."""

    def __init__(self, world: RealWorld, programs: WireGuardPrograms) -> None:
        self.world, self.programs = world, programs
        self.keys = {number: X25519PrivateKey.generate() for number in CITY}
        self._eye = world.lab.inside(
            world.lab.folder / "wire", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        )
        self._eye.setblocking(False)

    def identify(self, number: int) -> None:
        tunnels = self.world.node(number).tunnels
        tunnels.wireguard.programs = lambda: self.programs
        tunnels.private_key = self.keys[number].private_bytes_raw()

    def public(self, number: int) -> str:
        return base64.b64encode(self.keys[number].public_key().public_bytes_raw()).decode()

    def tunnels(self, number: int, *, keys: bool = True) -> InstanceTunnels:
        others = [each for each in CITY if each != number]
        return InstanceTunnels(
            always=frozenset({NUMBERS["always"]}),
            between=frozenset({NUMBERS["between"]}),
            plain=frozenset(address(each) for each in others if CITY[each] == CITY[number]),
            peers=tuple(EncryptedPeer(address(each), self.public(each) if keys else "") for each in others),
        )

    def state(self, number: int, tunnels: InstanceTunnels | None = None) -> NodeNetworks:
        networks = [
            NetworkState(
                f"default/{name}",
                vni,
                1400,
                (f"10.{vni - 4000}.0.0/16",),
                tuple(Remote(address(each), (f"{own(name, each)}/32",)) for each in CITY if each != number),
            )
            for name, vni in NUMBERS.items()
        ]
        return NodeNetworks((address(number),), tuple(networks), tunnels=tunnels or self.tunnels(number))

    async def start(self) -> None:
        for number in CITY:
            self.identify(number)
            assert not await self.world.node(number).apply(self.state(number))
            for name, vni in NUMBERS.items():
                interface = nic(f"default/{name}", f"{own(name, number)}/24", vni=vni, mtu=1400)
                await self.world.pod(number, f"{name}{number}", [interface])
                await self.world.serve(f"{name}{number}", 80)

    async def reaches(self, network: str, sender: int, receiver: int, *, hope: bool = True) -> bool:
        """With hope it is tried again: two nodes that begin a handshake at the same moment may need 15 seconds."""
        for _ in range(6 if hope else 1):
            found = await self.world.reaches(f"{network}{sender}", own(network, receiver), hope=hope)
            if found == f"{network}{receiver}":
                return True
        return False

    def ports(self) -> set[tuple[int, int, int]]:
        """Return senders and receivers by number, and the UDP port, of packets since the last call."""
        found: set[tuple[int, int, int]] = set()
        while True:
            try:
                frame = self._eye.recv(2048)
            except BlockingIOError:
                return found
            if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_UDP and frame[26:29] == frame[30:33]:
                at = 14 + (frame[14] & 15) * 4
                found.add((frame[29], frame[33], struct.unpack_from(">H", frame, at + 2)[0]))

    def clear(self) -> set[tuple[int, int]]:
        """Return the pairs of nodes with plaintext packets since the last call."""
        return {(sender, receiver) for sender, receiver, port in self.ports() if port == PLAIN}

    def process(self, number: int) -> int:
        return int((self.world.lab.folder / f"run-{number}" / "wireguard.pid").read_text())


@pytest.fixture(params=["userspace", "kernel"])
async def cities(
    request: pytest.FixtureRequest, real: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cities]:
    try:
        programs = WireGuardPrograms(find_program("wg"), find_program("wireguard-go"))
    except PartMissing as missing:
        pytest.fail(f"{missing} (python -m tools.node_parts)")
    if request.param == "kernel" and not kernel_has_driver():
        pytest.skip("NOT RUN: this kernel has no driver for WireGuard (`ip link add type wireguard` fails)")
    if request.param == "userspace":
        monkeypatch.setattr(wireguard, "_kernel_has_driver", lambda *_: False)
    made = Cities(real, programs)
    await made.start()
    yield made
    made._eye.close()


async def test_each_network_is_encrypted_as_it_asks_and_where_it_asks(cities: Cities) -> None:
    cities.ports()
    assert await cities.reaches("between", 1, 2)
    assert await cities.reaches("between", 2, 1)
    abroad = cities.ports()
    assert {(1, 2, ENCRYPTED), (2, 1, ENCRYPTED)} <= abroad
    assert {port for *_, port in abroad} == {ENCRYPTED}, "between Locations"
    assert await cities.reaches("between", 2, 3)
    assert {(2, 3), (3, 2)} <= cities.clear(), "within a Location"
    assert await cities.reaches("always", 2, 3)
    assert await cities.reaches("always", 1, 3)
    assert cities.clear() == set()
    assert await cities.reaches("never", 1, 2)
    assert {(1, 2), (2, 1)} <= cities.clear()


async def test_packets_of_every_size_pass(cities: Cities) -> None:
    loop, lab, sent = asyncio.get_running_loop(), cities.world.lab, os.urandom(300_000)
    listening = lab.socket(cities.world.namespace("between2"), socket.AF_INET, socket.SOCK_STREAM)
    with listening, lab.socket(cities.world.namespace("between1"), socket.AF_INET, socket.SOCK_STREAM) as client:
        listening.bind(("0.0.0.0", 9000))
        listening.listen()
        async with asyncio.timeout(20):
            await loop.sock_connect(client, (own("between", 2), 9000))
            server, _ = await loop.sock_accept(listening)
            server.setblocking(False)
            for sender, receiver in ((client, server), (server, client)):
                sending, got = loop.create_task(loop.sock_sendall(sender, sent)), b""
                while len(got) < len(sent):
                    got += await loop.sock_recv(receiver, 1 << 16)
                await sending
                assert got == sent
            server.close()


async def test_no_failure_sends_plaintext(cities: Cities) -> None:
    lab, node = cities.world.lab, cities.world.node(1)
    assert await cities.reaches("between", 1, 2)
    lab.command(lab.machine(1), f"ip link delete {node.tunnels.wireguard.name}")
    cities.ports()
    assert not await cities.reaches("between", 1, 2, hope=False)
    assert cities.clear() == set()
    assert await node.tunnels.mend()
    assert await cities.reaches("between", 1, 2)
    lab.command(lab.machine(1), f"ip rule delete table {TABLE}")
    cities.ports()
    assert not await cities.reaches("between", 1, 2, hope=False)
    assert cities.clear() == set()
    assert await node.tunnels.mend()
    assert await cities.reaches("between", 1, 2)
    assert not await node.apply(cities.state(1, cities.tunnels(1, keys=False)))
    cities.ports()
    assert not await cities.reaches("between", 1, 2, hope=False), "the other node's key is not known"
    assert not await cities.reaches("always", 1, 2, hope=False)
    assert cities.clear() == set()
    assert await cities.reaches("never", 1, 2), "other Networks stay open"


async def test_packets_in_the_clear_are_not_taken_either(cities: Cities) -> None:
    node = cities.world.node(1)
    assert await cities.reaches("between", 2, 1)
    await node.apply(cities.state(1, InstanceTunnels()))
    cities.ports()
    assert not await cities.reaches("between", 1, 2, hope=False)
    assert (1, 2) in cities.clear(), "node 1 encrypts nothing now"
    assert (2, 1) not in cities.clear()


async def test_a_node_that_is_not_known_is_closed(cities: Cities) -> None:
    known = cities.tunnels(2)
    await cities.world.node(2).apply(cities.state(2, InstanceTunnels(known.always, known.between)))
    cities.ports()
    assert not await cities.reaches("between", 2, 3, hope=False)
    assert (2, 3) not in cities.clear()


async def test_a_killed_program_is_replaced_and_another_agent_goes_on(cities: Cities) -> None:
    node = cities.world.node(1)
    if await node.tunnels.means() != "userspace":
        pytest.skip("NOT RUN: the kernel has no process to kill")
    assert await cities.reaches("between", 1, 2)
    before = cities.process(1)
    os.kill(before, signal.SIGKILL)
    async with asyncio.timeout(5):
        while not await node.tunnels.mend():
            await asyncio.sleep(0.05)
    assert cities.process(1) != before
    assert await cities.reaches("between", 1, 2)
    before = cities.process(1)
    await cities.world.restart(1)
    cities.identify(1)
    node = cities.world.node(1)
    cities.ports()
    # ExternalServices are applied first, and must keep the tunnels of instances until those are applied.
    await node.external.apply(EgressState(address(1)))
    assert await cities.reaches("between", 1, 2)
    assert not await node.apply(cities.state(1))
    assert await cities.reaches("between", 1, 2)
    assert cities.process(1) == before
    assert cities.clear() == set()


async def test_a_node_that_cannot_encrypt_is_closed_and_says_so(
    cities: Cities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encryption, "_RETRY_SECONDS", 0.0)
    node, right = cities.world.node(1), cities.programs
    await node.apply(cities.state(1, InstanceTunnels()))
    node.tunnels.wireguard.programs = lambda: WireGuardPrograms(Path("/bin/false"), Path("/bin/false"))
    await node.apply(cities.state(1))
    cities.ports()
    assert not await cities.reaches("between", 1, 2, hope=False)
    assert cities.clear() == set()
    assert node.tunnels.failed
    assert await node.tunnels.means() == "none"
    node.tunnels.wireguard.programs = lambda: right
    await node.tunnels.mend()
    assert await cities.reaches("between", 1, 2)
    assert not node.tunnels.failed


async def test_encryption_is_removed_without_a_network_that_requests_it(cities: Cities) -> None:
    lab, node = cities.world.lab, cities.world.node(1)
    await node.external.apply(EgressState(address(1)))
    await node.apply(cities.state(1, InstanceTunnels()))
    machine = lab.machine(1)
    assert str(TABLE) not in lab.command(machine, "ip rule") + lab.command(machine, "ip -6 rule")
    assert node.tunnels.wireguard.name not in lab.command(machine, "ip -o link")
    assert "-tunnels" not in lab.command(machine, "nft list tables")
    assert not (lab.folder / "run-1" / "wireguard.pid").exists()


BEHIND = "172.16.0.2"


async def test_one_of_two_nodes_may_be_behind_nat(real: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wireguard, "_kernel_has_driver", lambda *_: False)
    lab, outer = real.lab, real.node(2)
    inner = LinuxDatapath(lab.folder / "run-inner", str(_behind_nat(real)))
    keys = {each: X25519PrivateKey.generate() for each in (BEHIND, address(2))}
    programs = WireGuardPrograms(find_program("wg"), find_program("wireguard-go"))
    ends = ((inner, BEHIND, address(2), "10.97.1"), (outer, address(2), BEHIND, "10.97.2"))

    def state(place: str, other: str, far: str, more: tuple[EncryptedPeer, ...] = ()) -> NodeNetworks:
        public = base64.b64encode(keys[other].public_key().public_bytes_raw()).decode()
        tunnels = InstanceTunnels(between=frozenset({4097}), peers=(EncryptedPeer(other, public), *more))
        network = NetworkState("default/n", 4097, 1300, ("10.97.0.0/16",), (Remote(other, (f"{far}.5/32",)),))
        return NodeNetworks((place,), (network,), tunnels=tunnels)

    try:
        for node, place, other, prefix in ends:
            node.tunnels.wireguard.programs = lambda: programs
            node.tunnels.private_key = keys[place].private_bytes_raw()
            far = "10.97.2" if prefix == "10.97.1" else "10.97.1"
            assert not await node.apply(state(place, other, far))
            lab.namespace(f"pod-{prefix}")
            interface = nic("default/n", f"{prefix}.5/24", mtu=1300)
            await node.attach(f"pod-{prefix}", str(lab.folder / f"pod-{prefix}"), [interface])
            await real.serve(prefix, 80)
        for pod, target in (("10.97.1", "10.97.2"), ("10.97.2", "10.97.1")):
            tried = [await real.reaches(pod, f"{target}.5") for _ in range(4)]
            assert target in tried, "both ways, once the node behind NAT has sent a packet"
        # A new peer must not reset the learned endpoint of the node behind NAT.
        stranger = EncryptedPeer(address(3), base64.b64encode(bytes(32)).decode())
        assert not await outer.apply(state(address(2), BEHIND, "10.97.1", (stranger,)))
        assert await real.reaches("10.97.2", "10.97.1.5") == "10.97.1"
    finally:
        await inner.remove_all()
        await inner.close()


def _behind_nat(world: RealWorld) -> Path:
    """Return a machine behind NAT: it reaches other nodes from machine 9's address, and none can reach it."""
    lab, router = world.lab, world.lab.machine(9)
    inner = lab.namespace("inner")
    for namespace, commands in {
        inner: (
            "ip link set lo up",
            f"ip link add eth0 type veth peer name inner netns {router}",
            f"ip address add {BEHIND}/24 dev eth0",
            "ip link set eth0 up",
            "ip route add default via 172.16.0.1 dev eth0 onlink",
        ),
        router: (
            "ip address add 172.16.0.1/24 dev inner",
            "ip link set inner up",
            "sysctl -w net.ipv4.ip_forward=1",
            "nft add table ip nat",
            "nft add chain ip nat out { type nat hook postrouting priority 100 ; }",
            "nft add rule ip nat out ip saddr 172.16.0.0/24 masquerade",
        ),
        lab.machine(2): ("ip route add default dev eth0",),
    }.items():
        for command in commands:
            lab.command(namespace, command)
    return inner
