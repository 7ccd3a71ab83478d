"""Attacks on public addresses: forged packets of the tunnel, forged sources outside. With packets."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.api.networking.ports import INGRESS_PORT
from tarmac.datapath.linux.naming import outside_mac, tunnel_mac
from tarmac.datapath.linux.tables.ingressadmission import INGRESS_VNI
from tests.datapath.frames import udp_frame
from tests.datapath.ingress_worlds import (
    BASIC,
    PORT,
    PUBLIC1,
    PUBLIC2,
    PUBLIC6,
    Heard,
    IngressWorld,
    at,
    state,
    without,
)
from tests.datapath.segment import INTERFACE, STRANGER, STRANGER6, TARGET, TARGET6
from tests.datapath.test_egress_attacks import Ear
from tests.datapath.worlds import DENIED_WITHIN

pytestmark = [pytest.mark.root]

BOTH = pytest.mark.parametrize(
    ("address", "client", "stranger"),
    [(PUBLIC1, TARGET, STRANGER), (PUBLIC6, TARGET6, STRANGER6)],
    ids=["IPv4", "IPv6"],
)
ONE_POD = without(
    without(BASIC, PUBLIC1, pods=("c",), ports=(("UDP", PORT, 90),)), PUBLIC6, pods=("c",), ports=(("UDP", PORT, 90),)
)
"""Public addresses of a pod on node 2, for datagrams."""


def tunnelled(node: int, sender: int, source: str, destination: str, port: int, word: bytes) -> bytes:
    """Encode a packet for the end of a node's tunnel."""
    to, own = (tunnel_mac(INGRESS_VNI, at(each)) for each in (node, sender))
    return struct.pack(">II", 0x08000000, INGRESS_VNI << 8) + udp_frame(to, own, source, destination, port, word)


async def send(street: IngressWorld, namespace: Path, node: int, content: bytes) -> None:
    """Send a datagram to a node's tunnel port from a namespace."""
    with street.lan.lab.socket(namespace, socket.AF_INET, socket.SOCK_DGRAM) as sender:
        await asyncio.get_running_loop().sock_sendto(sender, content, (at(node), INGRESS_PORT))


@asynccontextmanager
async def ear(street: IngressWorld, namespace: Path, port: int) -> AsyncGenerator[Ear]:
    """Receive datagrams at a port of a namespace."""
    made = Ear(street.lan, namespace, port)
    try:
        yield made
    finally:
        made.close()


@BOTH
async def test_only_nodes_send_packets_of_clients_into_the_tunnel(
    street: IngressWorld, address: str, client: str, stranger: str
) -> None:
    await street.apply(*ONE_POD)
    lab, forged = street.lan.lab, tunnelled(2, 4, client, address, PORT, b"forged")
    async with ear(street, street.real.namespace("c"), 90) as pod:
        for place in (lab.machine(9), street.real.namespace("a"), street.real.namespace("d")):
            await send(street, place, 2, forged)
        assert await pod.next(DENIED_WITHIN) is None, "a foreign machine on the wire, pods"
        await send(street, lab.machine(4), 2, tunnelled(2, 4, address, address, PORT, b"forged"))
        assert await pod.next(DENIED_WITHIN) is None, "a public address is no client"
        await send(street, lab.machine(4), 2, forged)
        assert await pod.next() == (b"forged", client), "a node may: it could have admitted it anyway"
        assert not await street.real.node(2).ingress.apply(replace(state(2, *ONE_POD), peers=(at(1), at(2), at(3))))
        await send(street, lab.machine(4), 2, forged)
        assert await pod.next(DENIED_WITHIN) is None


@BOTH
async def test_only_nodes_with_endpoints_answer_as_a_public_address(
    street: IngressWorld, address: str, client: str, stranger: str
) -> None:
    await street.apply(*ONE_POD)
    street.carry(3, address)
    lab = street.lan.lab
    async with ear(street, street.lan.target, 700) as outside:
        await send(street, lab.machine(1), 3, tunnelled(3, 1, address, client, 700, b"forged"))
        await send(street, lab.machine(9), 3, tunnelled(3, 2, address, client, 700, b"forged"))
        await send(street, lab.machine(2), 3, tunnelled(3, 2, stranger, client, 700, b"of nobody"))
        assert await outside.next(DENIED_WITHIN) is None, (
            "a node without an endpoint, a foreign machine, another source"
        )
        await send(street, lab.machine(2), 3, tunnelled(3, 2, address, client, 700, b"answer"))
        assert await outside.next() == (b"answer", address)


async def test_nothing_comes_in_from_outside_as_a_public_address_or_as_a_node(street: IngressWorld) -> None:
    await street.apply(*ONE_POD)
    street.carry(3, PUBLIC1)
    mac, own = outside_mac(f"ingress\0{at(3)}", INTERFACE), "02:00:00:00:00:77"
    lab, loop = street.lan.lab, asyncio.get_running_loop()
    async with ear(street, street.real.namespace("c"), 90) as pod:
        with lab.socket(street.lan.target, socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind(("eth0", 0))
            for source in (PUBLIC1, PUBLIC2, "240.1.2.3"):
                await loop.sock_sendall(wire, udp_frame(mac, own, source, PUBLIC1, PORT, b"forged"))
            assert await pod.next(DENIED_WITHIN) is None
            await loop.sock_sendall(wire, udp_frame(mac, own, STRANGER, PUBLIC1, PORT, b"client"))
            assert await pod.next() == (b"client", STRANGER)
            await loop.sock_sendall(wire, udp_frame(mac, own, STRANGER, PUBLIC2, PORT, b"client"))
            assert await pod.next(DENIED_WITHIN) is None, "this node does not own the address now"


async def test_rules_deleted_by_hand_let_no_public_address_out(street: IngressWorld) -> None:
    await street.apply(*BASIC)
    street.carry(3, PUBLIC1)
    assert (await street.called(PUBLIC1) or Heard("", "")).sandbox in "ac"
    lab = street.lan.lab
    for table in ("inet tarmac-in", "netdev tarmac-in"):
        lab.command(street.ingress(3), f"nft delete table {table}")
    assert await street.called(PUBLIC1, hope=False) is None, "the LAN captures no frame from another address either"
    assert await street.real.node(3).ingress.mend() == ["ingress"]
    street.carry(3, PUBLIC1)
    assert (await street.called(PUBLIC1) or Heard("", "")).sandbox in "ac"
