"""ExternalServices between cities: only WireGuard on the wire, for every failure; plain within a city.

Node 1 is in one city, nodes 2, 3 and 4 in another. Nodes 3 and 4 may carry addresses.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tarmac.datapath.egress import EgressState, EncryptedPeer
from tarmac.datapath.linux.egress import encryption
from tarmac.datapath.linux.egress.encryption import TABLE
from tarmac.datapath.linux.egress.wireguard import WireGuardPrograms
from tests.datapath.conftest import real_world
from tests.datapath.egress_worlds import (
    DIAL,
    DIAL6,
    KEP,
    SOURCE1,
    SOURCE2,
    SOURCE6,
    ExternalWorld,
    external_world,
    source,
)
from tests.datapath.wireguard import Wire, encrypting
from tests.datapath.worlds import RealWorld

pytestmark = [pytest.mark.root]

ALL = replace(KEP, sources=[*KEP.sources, source("a", SOURCE6)], inbound=(("TCP", 80, 80),))
CITY = {1: "ams", 2: "dfw", 3: "dfw", 4: "dfw"}
PLAIN, ENCRYPTED = 4800, 4802


class Cities:
    """The nodes, their keys, and a capture on the wire between them."""

    def __init__(self, lan: ExternalWorld, world: RealWorld, programs: WireGuardPrograms) -> None:
        self.lan, self.world, self.service, self._programs = lan, world, ALL, programs
        self.keys = {number: X25519PrivateKey.generate() for number in CITY}
        self._wire = Wire(world.lab)
        for number in CITY:
            self.identify(number)

    def identify(self, number: int) -> None:
        """Give a node its programs and key, as an agent does first."""
        external = self.world.node(number).external
        external.encryption.wireguard.programs = lambda: self._programs
        external.identify(self.keys[number].private_bytes_raw())

    async def restart(self, number: int) -> None:
        """Restart a node's agent with the state of the previous one."""
        await self.world.restart(number)
        self.identify(number)
        await self.lan.network(number)
        await self.lan.apply(self.service, number)

    def public(self, number: int) -> str:
        return base64.b64encode(self.keys[number].public_key().public_bytes_raw()).decode()

    def peers(self, number: int) -> list[EncryptedPeer]:
        """Return the nodes of other cities."""
        others = [each for each in CITY if CITY[each] != CITY[number]]
        return [EncryptedPeer(f"198.18.0.{each}", self.public(each)) for each in others]

    async def encrypt(self, *numbers: int, peers: list[EncryptedPeer] | None = None) -> None:
        told = {number: tuple(self.peers(number) if peers is None else peers) for number in numbers}
        self.service = replace(self.service, peers={**self.service.peers, **told})
        await self.lan.apply(self.service, *numbers)

    def on_the_wire(self) -> set[tuple[int, int, int]]:
        """Return senders and receivers by number, and the UDP port, of packets since the last call."""
        return self._wire.seen()

    def process(self, number: int) -> int:
        return int((self.world.lab.folder / f"run-{number}" / "wireguard.pid").read_text())

    async def close(self) -> None:
        self._wire.close()
        for number in CITY:
            await self.world.node(number).external.remove()


def is_alive(process: int) -> bool:
    """A process that has ended and was not reaped is not alive."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except OSError:
        return False


@pytest.fixture(params=["userspace", "kernel"])
async def cities(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cities]:
    programs = encrypting(request.param, monkeypatch)
    world = real_world()
    async with external_world(world) as lan:
        made = Cities(lan, world, programs)
        try:
            assert await world.node(1).external.means() == request.param
            await lan.apply(ALL)
            lan.carry(3, SOURCE1, SOURCE2, SOURCE6)
            yield made
        finally:
            await made.close()


async def test_between_cities_the_wire_shows_nothing_but_wireguard(cities: Cities) -> None:
    lan = cities.lan
    await cities.encrypt(1, 3, 4)
    cities.on_the_wire()
    assert [await lan.seen(pod) for pod in ("a", "b")] == [SOURCE1, SOURCE2]
    assert await lan.seen("a", protocol="UDP") == SOURCE1
    assert await lan.seen("a", DIAL6) == SOURCE6
    assert await lan.called(SOURCE2, 80) == "b"
    abroad = {each for each in cities.on_the_wire() if 1 in each[:2]}
    assert {(1, 3, ENCRYPTED), (3, 1, ENCRYPTED)} <= abroad
    assert {port for _, _, port in abroad} == {ENCRYPTED}
    counted = await cities.world.node(1).external.transferred()
    assert sorted(counted) == [f"198.18.0.{number}" for number in (2, 3, 4)]
    assert counted["198.18.0.3"] > counted["198.18.0.2"]
    assert await lan.seen("c") == SOURCE1, "plain within a city"
    assert {(2, 3, PLAIN), (3, 2, PLAIN)} <= cities.on_the_wire()
    lan.drop(3, SOURCE1)
    lan.carry(4, SOURCE1)
    assert await lan.seen("a") == SOURCE1, "through another gateway"
    of_another = {each for each in cities.on_the_wire() if 1 in each[:2]}
    assert {(1, 4, ENCRYPTED), (4, 1, ENCRYPTED)} <= of_another
    assert {port for _, _, port in of_another} == {ENCRYPTED}


async def test_packets_of_every_size_pass_both_ways(cities: Cities) -> None:
    await cities.encrypt(1, 3, 4)
    loop, segment = asyncio.get_running_loop(), cities.lan.frames()
    sent = os.urandom(300_000)
    listening = segment.lab.socket(segment.target, socket.AF_INET, socket.SOCK_STREAM)
    with listening, segment.lab.socket(cities.lan.namespace("a"), socket.AF_INET, socket.SOCK_STREAM) as client:
        listening.bind(("0.0.0.0", 8000 + 1000))
        listening.listen()
        await cities.lan.apply(replace(cities.service, ports=(("TCP", 8000, 9000), ("UDP", 8000, 8000))))
        async with asyncio.timeout(20):
            await loop.sock_connect(client, (DIAL, 8000))
            server, _ = await loop.sock_accept(listening)
            server.setblocking(False)
            for sender, receiver in ((client, server), (server, client)):
                sending, got = loop.create_task(loop.sock_sendall(sender, sent)), b""
                while len(got) < len(sent):
                    got += await loop.sock_recv(receiver, 1 << 16)
                await sending
                assert got == sent
            server.close()
    # The route has the smaller MTU, so the pod's node refuses packets that are too large.
    shown = cities.world.lab.command(_router(cities, 1), "ip route show table 116")
    assert f"mtu {1600 - 50 - 60}" in shown


def _router(cities: Cities, number: int) -> Path:
    folder = cities.world.lab.folder / f"run-{number}" / "netns"
    return next(each for each in sorted(folder.iterdir()) if "egress" in cities.world.lab.command(each, "ip -o link"))


async def test_no_failure_sends_plaintext(cities: Cities) -> None:
    lan = cities.lan
    await cities.encrypt(3, 4)
    cities.on_the_wire()
    assert await lan.seen("a", hope=False) is None, "a gateway accepts only encrypted packets from other cities"
    assert (3, 1, PLAIN) not in cities.on_the_wire()
    await cities.encrypt(1)
    assert await lan.seen("a") == SOURCE1
    link = cities.world.node(1).external.encryption.wireguard.name
    cities.world.lab.command(cities.world.lab.machine(1), f"ip link delete {link}")
    cities.on_the_wire()
    assert await lan.seen("a", hope=False) is None
    assert not {each for each in cities.on_the_wire() if 1 in each[:2] and each[2] == PLAIN}
    assert list(await cities.world.node(1).external.mend()) == ["encryption"]
    assert await lan.seen("a") == SOURCE1
    assert not await cities.world.node(1).external.mend()
    unknown = [EncryptedPeer(each.address) for each in cities.peers(1)]
    await cities.encrypt(1, peers=unknown)
    cities.on_the_wire()
    assert await lan.seen("a", hope=False) is None, "the other node's key is not known"
    assert not {each for each in cities.on_the_wire() if 1 in each[:2] and each[2] == PLAIN}


async def test_a_key_that_another_node_claims_stays_with_whose_it_was(cities: Cities) -> None:
    await cities.encrypt(1, 3, 4)
    assert await cities.lan.seen("a") == SOURCE1
    thief = [EncryptedPeer("198.18.0.2", cities.public(3)), *cities.peers(1)[1:]]
    await cities.encrypt(1, peers=thief)
    assert await cities.lan.seen("a") == SOURCE1


async def test_a_new_key_is_followed_by_its_own_node_and_by_the_others(cities: Cities) -> None:
    lan = cities.lan
    await cities.encrypt(1, 3, 4)
    assert await lan.seen("a") == SOURCE1
    cities.keys[3] = X25519PrivateKey.generate()
    await cities.restart(3)
    lan.carry(3, SOURCE1, SOURCE2, SOURCE6)
    assert await lan.seen("a", hope=False) is None, "the new key is not known yet"
    await cities.encrypt(1)
    assert await lan.seen("a") == SOURCE1


async def test_another_agent_goes_on_with_it_and_a_lost_process_is_replaced(cities: Cities) -> None:
    lan, userspace = cities.lan, await cities.world.node(1).external.means() == "userspace"
    await cities.encrypt(1, 3, 4)
    assert await lan.seen("a") == SOURCE1
    before = cities.process(1) if userspace else 0
    await cities.restart(1)
    lan.carry(3, SOURCE1, SOURCE2, SOURCE6)
    assert await lan.seen("a") == SOURCE1, "the WireGuard session continues"
    if userspace:
        assert cities.process(1) == before
        for number in (1, 3):
            before = cities.process(number)
            os.kill(before, signal.SIGKILL)
            async with asyncio.timeout(5):
                while not await cities.world.node(number).external.mend():
                    await asyncio.sleep(0.05)
            assert cities.process(number) != before
            assert await lan.seen("a") == SOURCE1, "also with the other side's old session"


async def test_while_rules_are_withdrawn_nothing_of_a_lively_pod_goes_in_the_clear(cities: Cities) -> None:
    lan, external = cities.lan, cities.world.node(1).external
    await cities.encrypt(1, 3, 4)
    assert await lan.seen("a") == SOURCE1
    cities.on_the_wire()
    with lan.frames().lab.socket(lan.namespace("a"), socket.AF_INET, socket.SOCK_DGRAM) as pod:
        for state in (EgressState("198.18.0.1"), cities.service.state(1)) * 3:
            talking = asyncio.get_running_loop().run_in_executor(None, _talk, pod)
            await external.apply(state)
            await talking
    assert not {each for each in cities.on_the_wire() if 1 in each[:2] and each[2] == PLAIN}


def _talk(pod: socket.socket) -> None:
    """Send many datagrams, for longer than the change of rules takes."""
    for _ in range(3000):
        with suppress(OSError):
            pod.sendto(b"\n", (DIAL, 8000))


async def test_a_node_that_cannot_encrypt_says_so_until_it_can(cities: Cities, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "_RETRY_SECONDS", 0.0)
    external = cities.world.node(1).external
    means, right = await external.means(), external.encryption.wireguard.programs
    await cities.encrypt(3, 4)
    external.encryption.wireguard.programs = lambda: WireGuardPrograms(Path("/bin/false"), Path("/bin/false"))
    state = replace(ALL, peers={1: tuple(cities.peers(1))}).state(1)
    cities.on_the_wire()
    failures = await external.apply(state)
    assert [name for name in failures if "closed" in str(failures[name])] == [ALL.name]
    assert await external.means() == "none"
    assert await cities.lan.seen("a", hope=False) is None
    assert not {each for each in cities.on_the_wire() if 1 in each[:2] and each[2] == PLAIN}
    assert not await external.apply(EgressState("198.18.0.1"))
    assert await external.means() == "none", "tested although no peer needs it now"
    external.encryption.wireguard.programs = right
    assert await external.means() == means
    assert external.encryption.wireguard.name not in cities.world.lab.command(cities.world.lab.machine(1), "ip -o link")
    assert not await external.apply(state)
    assert await cities.lan.seen("a") == SOURCE1


async def test_encryption_is_removed_without_remains(cities: Cities) -> None:
    await cities.encrypt(1, 3)
    machine, lab = cities.world.lab.machine(1), cities.world.lab
    own = cities.world.node(1).external.encryption
    process = cities.process(1) if await own.means() == "userspace" else 0
    assert str(TABLE) in lab.command(machine, "ip rule")
    assert own.wireguard.name not in await cities.world.node(1).external.interfaces(), "the datapath's own"
    await cities.encrypt(1, peers=[])
    assert str(TABLE) not in lab.command(machine, "ip rule") + lab.command(machine, "ip -6 rule")
    assert own.wireguard.name not in lab.command(machine, "ip -o link")
    assert "encrypted" not in lab.command(machine, "nft list tables")
    assert not Path(f"/var/run/wireguard/{own.wireguard.name}.sock").exists()
    assert not (lab.folder / "run-1" / "wireguard.pid").exists()
    assert not process or not is_alive(process)
    assert await cities.lan.seen("b", hope=False) is None, "the other side still requires encryption"
    process = cities.process(3) if await own.means() == "userspace" else 0
    await cities.world.node(3).external.remove()  # as with the gate off
    assert not process or not is_alive(process)
