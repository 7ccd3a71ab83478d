"""Nodes of two cities learn of each other by Gateways, and tunnels between cities are encrypted.

The whole server, real datagrams, and a fake kernel: packets pass between two nodes if both received matching rules.
The pods' node n1 is in London, the gateways n2 and n3 in Dallas.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tarmac.api.egress.names import ANNOTATION_NODE_FACTS, NAMESPACE
from tarmac.api.egress.nodefacts import NodeFacts, read_facts
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.targets.typed import GATEWAYS
from tarmac.client.targets.untyped import EVENTS, NODES
from tarmac.datapath.egress import EncryptedPeer
from tests.agent.egress.nodes import SOURCE, Planet, planet, until

pytestmark = pytest.mark.timeout(60)


@asynccontextmanager
async def two_cities(directory: Path) -> AsyncGenerator[Planet]:
    async with planet(directory, cities={"n1": "LHR"}) as world:
        yield world


async def facts(world: Planet, name: str) -> NodeFacts:
    async with asyncio.timeout(20):
        while True:
            notes = (await world.admin.resource(NODES).get(name))["metadata"].get("annotations") or {}
            if (found := read_facts(notes)) is not None:
                return found
            await asyncio.sleep(0.02)


async def peer(world: Planet, name: str) -> EncryptedPeer:
    """Return the peer that other nodes should configure, from the facts that the node publishes."""
    return EncryptedPeer(world.nodes[name].address, (await facts(world, name)).public_key)


def peers(world: Planet, name: str) -> list[EncryptedPeer]:
    return sorted(world.nodes[name].datapath.external.state.peers)


async def test_nodes_of_two_cities_know_each_others_keys_and_those_of_one_city_need_none(tmp_path: Path) -> None:
    async with two_cities(tmp_path) as world:
        await world.prepare()
        gateway = await world.until_ready()
        assert world.seen() == SOURCE
        assert peers(world, "n1") == [await peer(world, "n2"), await peer(world, "n3")]
        assert peers(world, "n2") == peers(world, "n3") == [await peer(world, "n1")]
        assert {(await facts(world, name)).encryption for name in world.nodes} == {"userspace"}
        own = world.nodes[gateway]
        external = own.external
        assert external is not None
        metric = ("tarmac_external_tunnel_bytes_total", "counter", {"peer": world.nodes["n1"].address}, 0)
        await external._facts.update()
        assert metric in list(external.metrics())
        assert own.datapath.external.private_key == (own.root / "pki" / "external.key").read_bytes()
        await cannot_speak_for_others(Client(world.nodes["n1"].cable), world.nodes["n1"].address)
        before = peers(world, "n1")
        node = world.nodes["n1"]
        await node.stop(killed=True)
        node.cable.cut = True
        node.start()
        await until(lambda: world.seen() == SOURCE)
        assert peers(world, "n1") == before, "a cut connection to the server changes nothing"


async def cannot_speak_for_others(thief: Client, address: str) -> None:
    """Assert that a node may not write another node's key or city, nor list nodes."""
    forged = {"metadata": {"annotations": {ANNOTATION_NODE_FACTS: "{}"}}}
    with pytest.raises(ApiError, match="n2"):
        await thief.resource(NODES).patch("n2", forged)
    theirs = {"spec": {"senders": [{"name": "n2", "address": address, "city": "DFW"}]}}
    with pytest.raises(ApiError, match="gateways"):
        await thief.resource(GATEWAYS).patch(SOURCE, theirs, NAMESPACE)
    with pytest.raises(ApiError):
        await thief.resource(NODES).list()


async def test_a_node_without_wireguard_is_refused_and_says_so_unless_both_sides_do_without(tmp_path: Path) -> None:
    async with two_cities(tmp_path) as world:
        node = world.nodes["n1"]
        await node.stop()
        node.datapath.external.encryption = "none"
        node.start()
        await world.prepare()
        await world.until_reason("EncryptionUnavailable")
        assert world.seen() is None
        assert node.datapath.external.state.empty, "no rule of the ExternalService is programmed"
        assert (await facts(world, "n1")).encryption == "none"
        events = (await world.admin.resource(EVENTS).list("default")).items
        told = [each for each in events if each["reason"] == "EncryptionUnavailable"]
        assert [(each["involvedObject"]["kind"], each["involvedObject"]["name"]) for each in told] == [("Node", "n1")]
        await node.stop()
        node.datapath.external.encryption = "kernel"
        node.start()
        await world.until_ready()
        assert world.seen() == SOURCE
        await node.stop()
        node.start("off")
        await world.until_reason("EncryptionUnavailable")
        for name in ("n2", "n3"):
            await world.nodes[name].stop()
            world.nodes[name].start("off")
        await world.until_ready()
        assert world.seen() == SOURCE
        assert [peers(world, name) for name in world.nodes] == [[], [], []]
        assert (await facts(world, "n1")).encryption == "off"


async def test_a_node_that_has_lost_its_key_makes_another_and_the_others_follow(tmp_path: Path) -> None:
    async with two_cities(tmp_path) as world:
        await world.prepare()
        await world.until_ready()
        node, before = world.nodes["n1"], await peer(world, "n1")
        await node.stop()
        (node.root / "pki" / "external.key").unlink()
        node.start()
        await until(lambda: before not in peers(world, "n2") + peers(world, "n3"))
        await until(lambda: bool(peers(world, "n2") and peers(world, "n3")))
        assert peers(world, "n2") == peers(world, "n3") == [await peer(world, "n1")]
        await world.until_ready()
        assert world.seen() == SOURCE
