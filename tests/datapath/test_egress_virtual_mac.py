"""An address with its own hardware address moves between nodes unnoticed by outside hosts.

The server ignores announcements: it keeps the first hardware address that it has learned.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.datapath.linux.naming import virtual_mac, virtual_name
from tests.datapath.egress_worlds import DIAL, DIAL6, KEP, SOURCE1, SOURCE2, SOURCE6, ExternalWorld, source
from tests.datapath.segment import INTERFACE, connected
from tests.datapath.worlds import RealWorld

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]

BOTH = replace(KEP, sources=[*KEP.sources, source("a", SOURCE6)], inbound=(("TCP", 80, 80),), virtual=True)


def stubborn(lan: ExternalWorld) -> dict[str, str]:
    """Make the server's neighbour entries permanent; return them."""
    segment, found = lan.frames(), dict[str, str]()
    for line in segment.lab.command(segment.target, "ip neighbour show dev eth0").splitlines():
        address, *words = line.split()
        if "lladdr" in words:
            found[address] = words[words.index("lladdr") + 1]
            settled = f"ip neighbour replace {address} lladdr {found[address]} dev eth0 nud permanent"
            segment.lab.command(segment.target, settled)
    return found


def is_up(lan: ExternalWorld, node: int, address: str) -> bool:
    assert isinstance(lan.world, RealWorld)
    namespace: Path = lan.world.lab.folder / f"run-{node}" / "external" / "netns"
    return "UP" in lan.world.lab.command(namespace, f"ip -o link show {virtual_name(INTERFACE, address)}").split(">")[0]


async def test_a_server_that_ignores_announcements_goes_on_after_a_move_and_back(lan: ExternalWorld) -> None:
    await lan.apply(BOTH)
    every = (SOURCE1, SOURCE2, SOURCE6)
    lan.carry(3, *every)
    segment, pod = lan.frames(), lan.namespace("a")
    async with connected(segment, pod, DIAL, 8000) as four, connected(segment, pod, DIAL6, 8000) as six:
        assert (await four(), await six()) == (SOURCE1, SOURCE6)
        learned = stubborn(lan)
        assert (learned[SOURCE1], learned[SOURCE6]) == (virtual_mac(SOURCE1), virtual_mac(SOURCE6))
        for old, new in ((3, 4), (4, 3)):
            lan.drop(old, *every)
            assert not any(is_up(lan, old, each) for each in every)
            lan.carry(new, *every)
            assert all(is_up(lan, new, each) for each in every)
            assert (await four(), await six()) == (SOURCE1, SOURCE6), f"by node {new}"
        assert await lan.called(SOURCE1, 80) in ("a", "c"), "the server opens a connection"
        assert await lan.seen("b") == SOURCE2, "each through its own link"


async def test_an_address_that_is_only_announced_is_lost_to_such_a_server(lan: ExternalWorld) -> None:
    await lan.apply(replace(BOTH, virtual=False))
    lan.carry(3, SOURCE1)
    async with connected(lan.frames(), lan.namespace("a"), DIAL, 8000) as ask:
        assert await ask() == SOURCE1
        stubborn(lan)
        lan.drop(3, SOURCE1)
        lan.carry(4, SOURCE1)
        assert await ask(1.0) is None, "the problem that virtual addresses solve"


async def test_a_virtual_address_is_probed_adopted_and_changes_its_kind(lan: ExternalWorld) -> None:
    world = lan.world
    assert isinstance(world, RealWorld)
    await lan.apply(BOTH)
    segment, external = lan.frames(), world.node(3).external
    segment.asked_for |= {SOURCE1, SOURCE6}
    assert [await asyncio.to_thread(external.probe, each) for each in (SOURCE1, SOURCE6)] == ["", ""]
    assert not is_up(lan, 3, SOURCE1), "down again after the probe"
    segment.lab.command(segment.stranger, f"ip address add {SOURCE1}/24 dev eth0")
    hardware = segment.lab.command(segment.stranger, "ip -br link show eth0").split()[2]
    assert await asyncio.to_thread(external.probe, SOURCE1) == hardware
    segment.lab.command(segment.stranger, f"ip address del {SOURCE1}/24 dev eth0")
    lan.carry(3, SOURCE1, SOURCE6)
    assert await lan.seen("a") == SOURCE1

    restarted = await world.restart(3)
    assert not await restarted.external.apply(BOTH.state(3))
    assert sorted(restarted.external.carried()) == [SOURCE1, SOURCE6]
    assert (await lan.seen("a"), await lan.seen("a", DIAL6)) == (SOURCE1, SOURCE6)

    slow = replace(BOTH, rates=(8_000_000, None))
    await lan.apply(slow)
    own = world.lab.folder / "run-3" / "external" / "netns"
    # 8 Mbit/s of IP packets: the kernel counts the link's header of 14 bytes for each 1,500 on top
    assert "rate 8074Kbit" in world.lab.command(own, f"tc class show dev {virtual_name(INTERFACE, SOURCE1)}")
    assert await lan.seen("a") == SOURCE1
    await lan.apply(replace(BOTH, virtual=False))
    lan.world.node(3).external.announce([SOURCE1])
    assert await lan.seen("a") == SOURCE1, "through the shared link"
    await lan.apply(BOTH)
    lan.world.node(3).external.announce([SOURCE1])
    assert await lan.seen("a") == SOURCE1
