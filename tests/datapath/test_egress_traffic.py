"""Traffic counters of a gateway on a real and a fake datapath, and their accuracy with packets."""

from __future__ import annotations

import asyncio
import itertools
import socket
from dataclasses import replace

import pytest

from tarmac.datapath.egress import GatewayTraffic
from tests.datapath.egress_worlds import (
    DIAL,
    DIAL6,
    KEP,
    SOURCE1,
    SOURCE2,
    SOURCE6,
    ExternalWorld,
    source,
)
from tests.datapath.segment import connected
from tests.datapath.test_egress_packets import BOTH_WAYS

OUT, IN = False, True
NAME = KEP.name
PORTS = 64_512


async def carriage(world: ExternalWorld, node: int = 3) -> GatewayTraffic:
    return await world.world.node(node).external.carriage()


def began(found: GatewayTraffic) -> dict[tuple[str, str, bool], int]:
    return {(each.service, each.source, each.inward): each.connections for each in found.traffic if each.connections}


def live(found: GatewayTraffic) -> dict[tuple[str, bool], int]:
    return {(each.source, each.inward): each.live for each in found.traffic if each.live}


async def test_connections_are_counted_by_service_and_address_and_changed_rules_forget_none(
    outside: ExternalWorld,
) -> None:
    assert await carriage(outside) == GatewayTraffic(), "a node without ExternalServices reports none"
    await outside.apply(BOTH_WAYS)
    outside.carry(3, SOURCE1, SOURCE2)
    for _ in range(3):
        assert await outside.seen("a") == SOURCE1
    assert await outside.called(SOURCE2, 80) in ("b", "d")
    before = await carriage(outside)
    assert began(before) == {(NAME, SOURCE1, OUT): 3, (NAME, SOURCE2, IN): 1}
    assert live(before) == {(SOURCE1, OUT): 3, (SOURCE2, IN): 1}
    assert all(each.bytes > 0 for each in before.traffic if each.connections)
    assert before.port_use == pytest.approx({SOURCE1: 3 / PORTS, SOURCE2: 0.0})
    await outside.apply(replace(BOTH_WAYS, connections=100))  # other chains
    assert await outside.seen("c") == SOURCE1
    await outside.apply(replace(KEP, sources=KEP.sources[1:]))  # fewer elements: a is no source any more
    after = await carriage(outside)
    assert began(after) == {(NAME, SOURCE1, OUT): 4}, "the server may open no new ones"
    assert live(after) == {(SOURCE1, OUT): 1}, "the pod's connections have ended"
    await outside.apply(BOTH_WAYS)
    assert await outside.seen("a") == SOURCE1
    again = await carriage(outside)
    assert began(again) == {(NAME, SOURCE1, OUT): 5, (NAME, SOURCE2, IN): 1}
    assert all(each.bytes >= 5 for each in again.traffic if each.connections)
    assert not began(await carriage(outside, 4)), "a gateway without connections"


async def test_live_connections_are_reported_by_the_owner_of_the_address(outside: ExternalWorld) -> None:
    await outside.apply(KEP)
    outside.carry(3, SOURCE1)
    assert await outside.seen("a") == SOURCE1
    assert live(await carriage(outside)) == {(SOURCE1, OUT): 1}
    outside.drop(3, SOURCE1)
    found = await carriage(outside)
    assert (live(found), dict(found.port_use)) == ({}, {})
    assert began(found) == {(NAME, SOURCE1, OUT): 1}, "past connections still count"


@pytest.mark.root
async def test_bytes_are_those_of_packets_both_ways_and_never_fall(lan: ExternalWorld) -> None:
    six = replace(BOTH_WAYS, sources=[*BOTH_WAYS.sources, source("a", SOURCE6)])
    await lan.apply(six)
    lan.carry(3, SOURCE1, SOURCE2, SOURCE6)
    assert await lan.seen("a", DIAL6) == SOURCE6
    async with connected(lan.frames(), lan.namespace("a"), DIAL, 8000) as ask:
        assert await ask() == SOURCE1
        sums = list[int]()
        for number in range(4):
            await lan.apply(replace(six, connections=100 + number))  # rewrites every table
            for _ in range(5):
                assert await ask() == SOURCE1
            sums.append(_bytes(await carriage(lan), SOURCE1))
    said = 1 + len(SOURCE1)
    for before, after in itertools.pairwise(sums):
        least = 5 * (2 * 52 + said)  # headers; acknowledgements may come separately
        assert least <= after - before <= 2 * least, sums
    assert _bytes(await carriage(lan), SOURCE6) > 0


@pytest.mark.root
async def test_the_fullest_port_of_a_server_counts_and_many_connections_are_told_as_exactly(lan: ExternalWorld) -> None:
    await lan.apply(replace(KEP, ports=(("UDP", 8000, 8000), ("UDP", 8001, 8001))))
    lan.carry(3, SOURCE1, SOURCE2)
    loop, clients = asyncio.get_running_loop(), list[socket.socket]()
    try:
        for number in range(200):
            client = lan.frames().lab.socket(lan.namespace("a"), socket.AF_INET, socket.SOCK_DGRAM)
            clients.append(client)
            await loop.sock_connect(client, (DIAL, 8000 if number < 150 else 8001))
            await loop.sock_sendall(client, b"?")
            assert await loop.sock_recv(client, 100) == SOURCE1.encode()
    finally:
        for client in clients:
            client.close()
    found = await carriage(lan)
    assert live(found) == {(SOURCE1, OUT): 200}
    assert began(found) == {(NAME, SOURCE1, OUT): 200}
    assert found.port_use == pytest.approx({SOURCE1: 150 / PORTS, SOURCE2: 0.0})


def _bytes(found: GatewayTraffic, address: str) -> int:
    return sum(each.bytes for each in found.traffic if each.source == address)
