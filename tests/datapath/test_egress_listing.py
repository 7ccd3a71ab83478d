"""The kernel's live connections: both translations of each, distinguished by transit address."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace

import pytest

from tarmac.datapath.egress import TranslatedConnection
from tests.datapath.egress_worlds import (
    DIAL,
    DIAL6,
    KEP,
    POD,
    POD6,
    SOURCE1,
    SOURCE2,
    SOURCE6,
    ExternalWorld,
    source,
    transit,
)
from tests.datapath.segment import TARGET, TARGET6

pytestmark = [pytest.mark.root]

ALL = replace(KEP, sources=[*KEP.sources, source("a", SOURCE6)], inbound=(("TCP", 80, 80),))
A, B, SIX = (transit(source(*each)) for each in (("a", SOURCE1), ("b", SOURCE2), ("a", SOURCE6)))


async def tracked(
    lan: ExternalWorld, node: int, *transits: str, most: int = 9
) -> tuple[list[TranslatedConnection], ...]:
    found = await lan.world.node(node).external.connections(transits, most)
    return list(found.forwarded), list(found.carried)


async def test_both_ends_know_a_connection_by_its_transit_address(lan: ExternalWorld) -> None:
    await lan.apply(ALL)
    lan.carry(3, SOURCE1, SOURCE2, SOURCE6)
    assert [await lan.seen(pod) for pod in ("a", "b")] == [SOURCE1, SOURCE2]
    assert await lan.seen("a", DIAL6) == SOURCE6
    for way, pod, dialled, target, address in (
        (A, POD, DIAL, TARGET, SOURCE1),
        (B, POD, DIAL, TARGET, SOURCE2),  # another pod with the same address
        (SIX, POD6, DIAL6, TARGET6, SOURCE6),
    ):
        ((here,), nothing), (nobody, (there,)) = await tracked(lan, 1, way), await tracked(lan, 3, way)
        assert (nothing, nobody) == ([], [])
        assert (here.protocol, here.source[0], here.meant, here.answerer) == (
            "TCP",
            pod,
            (dialled, 8000),
            (target, 8000),
        )
        assert here.seen[0] == way
        assert (there.source, there.meant, there.seen[0]) == (here.seen, (target, 8000), address)
        assert min(here.bytes_out, here.bytes_in) > 0
        assert abs(here.since - time.time()) < 60


async def test_connections_from_outside_are_there_too(lan: ExternalWorld) -> None:
    await lan.apply(ALL)
    lan.carry(3, SOURCE1, SOURCE2)
    assert await lan.called(SOURCE2, 80) == "b"
    ((here,), _), (_, (there,)) = await tracked(lan, 1, B), await tracked(lan, 3, B)
    assert (here.source[0], here.meant, here.answerer) == (TARGET, (B, 80), (POD, 80))
    assert (there.source, there.meant, there.answerer) == (here.source, (SOURCE2, 80), (B, 80))


async def test_not_more_than_asked_for_and_nothing_of_others(lan: ExternalWorld) -> None:
    await lan.apply(ALL)
    lan.carry(3, SOURCE1, SOURCE2)
    loop, clients = asyncio.get_running_loop(), list[socket.socket]()
    try:
        for _ in range(5):
            client = lan.frames().lab.socket(lan.namespace("a"), socket.AF_INET, socket.SOCK_STREAM)
            clients.append(client)
            await loop.sock_connect(client, (DIAL, 8000))
        assert [len(each) for each in await tracked(lan, 1, A, B, most=3)] == [3, 0]
        assert [len(each) for each in await tracked(lan, 3, A, B, most=3)] == [0, 3]
        assert [len(each) for each in await tracked(lan, 1, A)] == [5, 0]
        assert await tracked(lan, 1, B) == ([], [])
        assert await tracked(lan, 2, A) == ([], [])
        assert await tracked(lan, 4, A) == ([], [])
    finally:
        for client in clients:
            client.close()
