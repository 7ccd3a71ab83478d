"""Agents that announce public addresses by BGP: the whole server with controllers, and a speaker without packets."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from tarmac.api.ingress.names import ANNOTATION_ADDRESSES
from tarmac.api.networking.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.base.gates import WAY_IN
from tarmac.client.targets.target import Target, dynamic
from tarmac.client.targets.untyped import SECRETS, SERVICES
from tarmac.datapath.speaker import SessionReport
from tests.agent.egress.nodes import until
from tests.agent.ingress.test_ingress_agents import ADDRESSES, CLIENT, POOLS, PUBLIC, Town, town

pytestmark = pytest.mark.timeout(60)

PEERS = dynamic(API_VERSION, "bgppeers", "BGPPeer", namespaced=False)
PEER: JsonObject = {"address": "192.0.2.254", "asn": 65001, "localASN": 65010}


async def prepare(world: Town, **peer: object) -> None:
    """Create a Service at an address that n2 and n3 announce to a router, with a pod on n1."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    spec = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports}
    own = {"ranges": [{"cidr": "192.0.2.0/25"}], "allowedNamespaces": {"names": ["default"]}, "announce": "bgp"}
    await world.planet.create(POOLS, "public", own)
    await world.planet.create(PEERS, "edge", PEER | peer)
    await world.planet.create(SERVICES, "web", spec, annotations={ANNOTATION_ADDRESSES: PUBLIC})
    await world.pod("web-1", "n1", "10.128.0.5")
    async with asyncio.timeout(20):
        while PUBLIC not in {each["spec"]["address"] for each in (await world.admin.resource(ADDRESSES).list()).items}:
            await asyncio.sleep(0.02)


def announcing(world: Town) -> list[str]:
    return [name for name, each in world.nodes.items() if PUBLIC in each.datapath.ingress.speaker.announced]


async def entries(world: Town) -> dict[str, JsonObject]:
    """Return the entries of nodes about their sessions."""
    found = await world.admin.resource(PEERS).get("edge")
    return {each["name"]: each for each in (found.get("status") or {}).get("nodes") or ()}


async def until_sessions(world: Town, condition: Callable[[dict[str, JsonObject]], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition(await entries(world)):
            await asyncio.sleep(0.02)


async def reason(world: Town, target: Target[JsonObject], name: str, kind: str) -> str:
    found = await world.admin.resource(target).get(name)
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each["reason"] for each in conditions if each["type"] == kind), "")


async def test_all_gateways_announce_and_say_to_whom(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == ["n2", "n3"])
        said = await world.until_entries(
            lambda found: all(found.get(each, {}).get("announcing") for each in ("n2", "n3"))
        )
        assert {said[each]["via"] for each in ("n2", "n3")} == {"edge"}
        await until_sessions(
            world,
            lambda found: (
                {(n, e["state"], e.get("announced")) for n, e in found.items()}
                == {("n2", "Established", 1), ("n3", "Established", 1)}
            ),
        )
        for target, name, kind, wanted in (
            (PEERS, "edge", "Established", "Announced"),
            (POOLS, "public", "Ready", "Announced"),
            (POOLS, "public", "Redundant", "Redundant"),
        ):
            async with asyncio.timeout(20):
                while await reason(world, target, name, kind) != wanted:
                    await asyncio.sleep(0.05)
        assert world.answer() is not None


async def test_routes_live_as_long_as_an_endpoint_and_end_with_a_cordon(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == ["n2", "n3"])
        await world.ready("web-1", "10.128.0.5", ready=False)
        await until(lambda: announcing(world) == [])
        await world.until_entries(lambda found: found.get("n2", {}).get("reason") == "NoEndpoints")
        await world.ready("web-1", "10.128.0.5")
        await until(lambda: announcing(world) == ["n2", "n3"])
        await world.cordon("n2")
        await until(lambda: announcing(world) == ["n3"])
        said = await world.until_entries(lambda found: found["n2"].get("reason") == "Draining")
        assert said["n3"]["announcing"]
        assert world.nodes["n2"].datapath.ingress.speaker.state.sessions, "the session stays"
        await world.cordon("n2", on=False)
        await until(lambda: announcing(world) == ["n2", "n3"])


async def test_an_agent_that_stops_withdraws_and_one_without_the_server_goes_on(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == ["n2", "n3"])
        await world.nodes["n2"].stop()
        assert announcing(world) == ["n3"]
        node = world.nodes["n3"]
        state = node.datapath.ingress.speaker.state
        node.cable.cut = True
        await node.stop(killed=True)
        assert announcing(world) == ["n3"], "nothing withdraws for a killed agent"
        node.start()
        await until(lambda: node.ingress._reconciler._applied is not None)  # type: ignore[union-attr]
        assert (node.datapath.ingress.speaker.state, announcing(world)) == (state, ["n3"])


class Pauses:
    """A clock that records sleeps, and the state of the node at that moment, instead of sleeping."""

    def __init__(self, world: Town, node: str) -> None:
        self._world, self._node = world, node
        self.seconds: list[float] = []
        self.announcing: list[list[str]] = []
        self.answers: list[tuple[str, str] | None] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.announcing.append(announcing(self._world))
        found = self._world.nodes[self._node].datapath.ingress.answers(CLIENT, PUBLIC, 80)
        self.answers.append((found.sandbox, found.seen) if found is not None else None)


async def stopped(world: Town, node: str, drain: float) -> Pauses:
    """Restart a node's agent with this drain, wait until it announces if it may, and stop it."""
    await world.nodes[node].stop()
    world.nodes[node].start(drain=drain)
    if node != "n1":
        await until(lambda: node in announcing(world))
    pauses, ingress = Pauses(world, node), world.nodes[node].ingress
    assert ingress is not None
    if node != "n1":
        await until(lambda: bool(ingress._announcer.announced))
    ingress._clock = pauses  # type: ignore[assignment]
    await world.nodes[node].stop()
    return pauses


async def test_an_agent_that_stops_forwards_until_routers_have_followed(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == ["n2", "n3"])
        pauses = await stopped(world, "n2", 7.5)
        assert pauses.seconds == [7.5]
        assert pauses.announcing == [["n3"]], "it withdraws first"
        assert pauses.answers == [("web-1", CLIENT[0])], "and still forwards what arrives"
        assert (await stopped(world, "n1", 7.5)).seconds == [], "a node that announces nothing waits for nothing"


async def test_routes_follow_the_feature_gate(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == ["n2", "n3"])
        node = world.nodes["n2"]
        await node.stop()
        node.start(**{WAY_IN: False})
        await until(lambda: node.datapath.ingress.state.empty)
        assert (announcing(world), node.datapath.ingress.speaker.state.sessions) == (["n3"], ())
        assert not (node.root / "ingress.json").exists()
        await node.stop()
        node.start()
        await until(lambda: announcing(world) == ["n2", "n3"])
        assert node.datapath.ingress.answers(CLIENT, PUBLIC, 80) is not None


async def test_a_node_without_bird_says_so_and_the_pool_too(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        for each in world.nodes.values():
            each.datapath.ingress.speaker.available = False
        await prepare(world)
        await world.until_entries(lambda found: found.get("n2", {}).get("reason") == "SpeakerMissing")
        await until_sessions(world, lambda found: found.get("n2", {}).get("state") == "SpeakerMissing")
        async with asyncio.timeout(20):
            while await reason(world, POOLS, "public", "Ready") != "SpeakerMissing":
                await asyncio.sleep(0.05)


async def test_a_session_that_is_down_is_reported_with_its_error(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        for each in world.nodes.values():
            each.datapath.ingress.speaker.overrides["edge"] = SessionReport("Connect", "Socket: Connection refused")
        await prepare(world)
        await until_sessions(
            world,
            lambda found: (
                {(each["state"], each.get("lastError")) for each in found.values()}
                == {("Active", "Socket: Connection refused")}
            ),
        )
        await world.until_entries(lambda found: found.get("n2", {}).get("reason") == "SessionDown")
        for each in world.nodes.values():
            each.datapath.ingress.speaker.overrides.clear()
        await world.until_entries(lambda found: bool(found.get("n2", {}).get("announcing")))


async def test_a_session_gets_its_password_from_the_secret(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world, passwordSecret="bgp")
        await until_sessions(world, lambda found: "kube-system/bgp" in found.get("n2", {}).get("lastError", ""))
        assert announcing(world) == []
        data = {"password": base64.b64encode(b"correct horse").decode()}
        secret = {"metadata": {"name": "bgp", "namespace": "kube-system"}, "data": data}
        await world.admin.resource(SECRETS).create(secret)
        await until(lambda: announcing(world) == ["n2", "n3"])
        (session,) = world.nodes["n2"].datapath.ingress.speaker.state.sessions
        assert session.password == "correct horse"
        assert (world.nodes["n2"].root / "ingress.json").stat().st_mode & 0o077 == 0


async def test_a_deleted_peer_leaves_no_session_and_no_route(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == ["n2", "n3"])
        await world.admin.resource(PEERS).delete("edge")
        await until(lambda: announcing(world) == [])
        await until(lambda: not world.nodes["n2"].datapath.ingress.speaker.state.sessions)
        await world.until_entries(lambda found: found["n2"].get("reason") == "NoPeer")
