"""Public addresses between Locations: pods of one serve clients of another, and only WireGuard is on the wire.

Node 1 is at one Location, nodes 2, 3 and 4 at another. Nodes 3 and 4 may own addresses.
"""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tarmac.api.networking.ports import ENCRYPTED_PORT, INGRESS_PORT
from tarmac.datapath.egress import EncryptedPeer
from tests.datapath.conftest import real_world
from tests.datapath.ingress_worlds import (
    NODES,
    PORT,
    PUBLIC1,
    PUBLIC2,
    PUBLIC6,
    Heard,
    IngressWorld,
    Way,
    at,
    ingress_world,
    talking,
)
from tests.datapath.segment import TARGET, TARGET6
from tests.datapath.wireguard import Wire, encrypting

pytestmark = [pytest.mark.root]

FAR = 1
WAYS = (Way(PUBLIC1, ("a",)), Way(PUBLIC6, ("a",)), Way(PUBLIC2, ("d",)))
"""The pod `a` is on node 1, and `d` at the gateways' own Location."""


class Sites:
    """The nodes with keys."""

    def __init__(self, street: IngressWorld, wire: Wire) -> None:
        self.street, self.wire = street, wire
        keys = {number: X25519PrivateKey.generate() for number in NODES}
        for number, key in keys.items():
            street.real.node(number).external.identify(key.private_bytes_raw())
        peers = {
            number: EncryptedPeer(at(number), base64.b64encode(key.public_key().public_bytes_raw()).decode())
            for number, key in keys.items()
        }
        street.encrypted = {
            number: tuple(peers[other] for other in NODES if (other == FAR) != (number == FAR)) for number in NODES
        }

    def abroad(self) -> set[int]:
        """Return the UDP ports of packets to and from the other Location since the last call."""
        return {port for one, other, port in self.wire.seen() if FAR in (one, other)}

    def process(self, number: int) -> int:
        return int((self.street.lan.lab.folder / f"run-{number}" / "wireguard.pid").read_text())


@pytest.fixture(params=["userspace", "kernel"])
async def sites(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sites]:
    programs = encrypting(request.param, monkeypatch)
    world = real_world()
    async with ingress_world(world) as street:
        for number in NODES:
            world.node(number).external.encryption.wireguard.programs = lambda: programs
        wire = Wire(world.lab)
        try:
            yield Sites(street, wire)
        finally:
            wire.close()
            for number in NODES:
                await world.node(number).ingress.remove()
                await world.node(number).external.remove()
                assert not _is_running(world.lab.folder / f"run-{number}" / "wireguard.pid")


def _is_running(pid_file: Path) -> bool:
    return pid_file.exists() and Path(f"/proc/{pid_file.read_text().strip()}/cmdline").exists()


async def test_a_pod_at_another_location_answers_and_sees_the_client(sites: Sites) -> None:
    street = sites.street
    await street.apply(*WAYS)
    street.carry(3, PUBLIC1, PUBLIC2, PUBLIC6)
    sites.abroad()
    assert await street.called(PUBLIC1) == Heard("a", TARGET)
    assert await street.called(PUBLIC1, protocol="UDP") == Heard("a", TARGET)
    assert await street.called(PUBLIC6) == Heard("a", TARGET6)
    assert sites.abroad() == {ENCRYPTED_PORT}
    assert await street.called(PUBLIC2) == Heard("d", TARGET)
    assert INGRESS_PORT not in sites.abroad()


async def test_packets_of_every_size_pass_to_another_location(sites: Sites) -> None:
    street = sites.street
    await street.apply(*WAYS)
    street.carry(3, PUBLIC1, PUBLIC6)
    for address in (PUBLIC1, PUBLIC6):
        async with talking(street.lan, street.lan.target, address, PORT) as ask:
            for size in (1, 1400, 1500, 100_000):
                seen = TARGET6 if ":" in address else TARGET
                assert await ask(10.0, size) == Heard("a", seen), f"{size} bytes to {address}"
    async with talking(street.lan, street.lan.target, PUBLIC1, PORT, "UDP") as ask:
        for size in (1, 1400, 1472, 9000):
            # The first datagram above the path's MTU is lost, and the client learns the MTU.
            assert await ask(1.0, size) or await ask(10.0, size) == Heard("a", TARGET), f"{size} bytes in datagrams"


async def test_a_connection_to_another_location_goes_on_at_another_gateway(sites: Sites) -> None:
    street = sites.street
    await street.apply(*WAYS)
    street.carry(3, PUBLIC1)
    async with talking(street.lan, street.lan.target, PUBLIC1, PORT) as ask:
        assert await ask() == Heard("a", TARGET)
        street.drop(3, PUBLIC1)
        street.carry(4, PUBLIC1)
        assert await ask(10.0) == Heard("a", TARGET)


async def test_without_encryption_nothing_passes_and_no_packet_is_plain(sites: Sites) -> None:
    street = sites.street
    await street.apply(*WAYS)
    street.carry(3, PUBLIC1, PUBLIC2)
    assert await street.called(PUBLIC1) == Heard("a", TARGET)
    kernel = not (street.lan.lab.folder / "run-3" / "wireguard.pid").exists()
    if kernel:
        street.lan.lab.command(street.lan.lab.machine(3), "ip link del $(ip -o link show type wireguard | cut -d: -f2)")
    else:
        os.kill(sites.process(3), signal.SIGKILL)
    sites.abroad()
    assert await street.called(PUBLIC1, hope=False) is None
    assert await street.called(PUBLIC2) == Heard("d", TARGET), "the node's own Location continues"
    assert INGRESS_PORT not in sites.abroad()
    assert "encryption" in await street.real.node(3).ingress.mend()
    assert await street.called(PUBLIC1) == Heard("a", TARGET)
