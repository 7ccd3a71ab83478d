"""Agents reconcile Forwarders and Gateways: the whole server, real datagrams, and a fake kernel."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.egress.leases.thread import LeaseThread
from tarmac.agent.egress.relayinformers import EgressObjectSource
from tarmac.agent.egress.statuswriter import EgressStatusWriter
from tarmac.api.conditions import condition_of
from tarmac.api.egress.names import ANNOTATION_NODE_FACTS
from tarmac.client.targets.typed import FORWARDERS, GATEWAYS
from tarmac.client.targets.untyped import NODES, PODS
from tarmac.datapath.egress import EgressState
from tarmac.datapath.fakeegress import FakeEgressDatapath
from tests.agent.egress.nodes import CLAIMS, EXTERNAL, SOURCE, TARGET, Node, Planet, planet, until

pytestmark = pytest.mark.timeout(60)


async def test_a_pod_is_seen_under_its_address_and_the_server_reaches_it_back(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        gateway = await world.until_ready()
        assert world.carriers() == [gateway]
        assert world.seen() == SOURCE
        assert world.nodes[gateway].datapath.external.answers(TARGET, SOURCE, 80) == "web-1"
        assert world.nodes[gateway].datapath.external.announced
        await world.pod("web-2", "n3", "10.128.0.6")
        await until(lambda: world.seen("web-2", "n3") == SOURCE)
        await world.until_ready(gateway)


async def test_l5_nodes_follow_their_objects_and_say_what_they_read_what_is_in_force_and_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, refused = FakeEgressDatapath.apply, False

    async def refusing(external: FakeEgressDatapath, state: EgressState) -> Mapping[str, Exception]:
        done = await apply(external, state)
        wrong = [each.name for each in state.forwardings] + [each.address for each in state.sources]
        return {name: OSError("the kernel does not take it") for name in wrong} if refused else done

    monkeypatch.setattr(FakeEgressDatapath, "apply", refusing)
    async with planet(tmp_path) as world:
        await world.prepare()
        gateway = await world.until_ready()
        first = await told(world, gateway, "True")
        await world.listen(9000)
        followed = await told(world, gateway, "True", after=first)
        assert all(later > earlier for later, earlier in zip(followed, first, strict=True)), "the node reads changes"
        refused = True
        await world.listen(9001)
        await told(world, gateway, "False", after=followed)
        refused = False
        await told(world, gateway, "True", after=followed)


async def told(world: Planet, owner: str, programmed: str, after: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Wait until Forwarder and Gateway report newer generations than `after`, both with this `Programmed` status.

    Returns the generations: a node counts as synced only if it applied the generation that it read.
    """
    namespace = "external-services"
    async with asyncio.timeout(20):
        while True:
            (forwarder,) = (await world.admin.resource(FORWARDERS).list(namespace)).items
            gateway = await world.admin.resource(GATEWAYS).get(SOURCE, namespace)
            entries = {each.name: each for each in (gateway.status.nodes if gateway.status else ())}
            found = list[tuple[bool, ...]]()
            for known, own in ((forwarder, forwarder.status), (gateway, entries.get(owner))):
                newest, said = known.metadata.generation, known.status.conditions if known.status else []
                conditions = {each.type: (each.status, each.observed_generation) for each in said}
                read, applied = (own.rule_generation, own.sync_generation) if own is not None else (0, 0)
                other = "False" if programmed == "True" else "True"
                expected = {"Programmed": (programmed, newest), "Degraded": (other, newest)}
                found.append((read == newest, (applied == read) == (programmed == "True"), conditions == expected))
            generations = forwarder.metadata.generation, gateway.metadata.generation
            if all(all(each) for each in found) and all(a > b for a, b in zip(generations, after, strict=True)):
                return generations
            await asyncio.sleep(0.02)


async def test_an_address_moves_when_its_gateway_is_cordoned_stopped_or_killed(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        first = await world.until_ready()
        other = {"n2": "n3", "n3": "n2"}[first]
        await world.admin.resource(NODES).patch(first, {"spec": {"unschedulable": True}})
        await world.until_ready(other)
        await until(lambda: (world.carriers(), world.seen()) == ([other], SOURCE))
        status = (await world.source_ip("Bound"))["status"]
        assert (status["owner"]["gateway"], status["lastFailover"]) == (other, status["owner"]["since"])
        moves = [message for reason, message in await world.events("SourceIP", SOURCE) if reason == "OwnerChanged"]
        assert moves[0].startswith(f"{SOURCE} has come to {first}: first owner")
        assert moves[1].startswith(f"{SOURCE} has come to {other} from {first}: it was handed over, without an owner")
        await world.admin.resource(NODES).patch(first, {"spec": {"unschedulable": None}})
        # A stopping owner hands over only to candidates that it knows.
        await until(lambda: first in world.candidates(SOURCE) and first in world.in_line(other, SOURCE))
        await world.nodes[other].stop()
        await until(lambda: world.carriers() == [first])
        await until(lambda: world.seen() == SOURCE)
        world.nodes[other].start()
        await world.until_ready(first)
        await world.nodes[first].stop(killed=True)
        world.nodes[first].datapath.external.drop([SOURCE])  # the kernel's timeout does so
        await until(lambda: world.carriers() == [other])
        await until(lambda: world.seen() == SOURCE)


async def test_a_gateway_that_shuts_down_does_not_campaign_again_while_its_pods_end(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        first = await world.until_ready()
        other = {"n2": "n3", "n3": "n2"}[first]
        await until(lambda: other in world.in_line(first, SOURCE))
        draining = world.nodes[first].external
        assert draining is not None
        await draining.stop()
        await until(lambda: world.carriers() == [other])
        draining._reconciler._check_at = 0.0
        draining._reconciler._wake.set()  # any change of an object starts a pass
        await world.nodes[other].stop(killed=True)
        world.nodes[other].datapath.external.drop([SOURCE])
        for _ in range(30):  # longer than a lease
            await asyncio.sleep(0.1)
            assert world.carriers() == []


async def test_unchanged_rules_are_repaired_and_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, mended = list[EgressObjectSource](), list[FakeEgressDatapath]()
    current = EgressObjectSource.current

    def reading(source: EgressObjectSource) -> Any:
        read.append(source)
        return current(source)

    async def mending(external: FakeEgressDatapath) -> tuple[str, ...]:
        mended.append(external)
        return ()

    monkeypatch.setattr(EgressObjectSource, "current", reading)
    monkeypatch.setattr(FakeEgressDatapath, "mend", mending)
    async with planet(tmp_path) as world:
        await world.prepare()
        gateway = await world.until_ready()
        own = world.nodes[gateway].datapath.external

        async def looks() -> int:
            """Count reads of objects until the next repair of the gateway's rules."""
            began, before = len(read), mended.count(own)
            await until(lambda: mended.count(own) > before)
            return len(read) - began

        async with asyncio.timeout(20):
            while await looks():
                pass  # the last acknowledgements arrive as changes
        assert await looks() == 0
        world.nodes[gateway].address = "127.0.9.9"
        await until(lambda: own.state.node_address == "127.0.9.9")


async def test_two_gateways_share_their_connections_and_one_that_cannot_says_so(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        await world.until_ready()
        address = {name: node.address for name, node in world.nodes.items()}
        for name, other in (("n2", "n3"), ("n3", "n2")):
            external = world.nodes[name].datapath.external
            await until(lambda external=external, other=other: external.state.partner == address[other])
            assert json.loads((await notes_of(world, name))[ANNOTATION_NODE_FACTS])["stateSync"]
        assert world.nodes["n1"].datapath.external.state.partner == ""

        async def synced() -> dict[str, str]:
            found = await world.admin.resource(GATEWAYS).get(SOURCE, "external-services")
            return {each.name: each.synced_with for each in found.status.nodes} if found.status else {}

        async with asyncio.timeout(20):
            while await synced() != {"n1": "", "n2": "n3", "n3": "n2"}:
                await asyncio.sleep(0.02)
        sync, node = world.nodes["n2"].datapath.external.state_sync, world.nodes["n2"].external
        assert node is not None
        sync.works, sync.partner, sync.problem = False, "", "conntrackd does not stay"
        assert await node._facts.update()
        async with asyncio.timeout(20):
            while not (said := await world.events("Node", "n2")):
                await asyncio.sleep(0.02)
        assert [reason for reason, _ in said] == ["StateSyncMissing"]
        assert "conntrackd does not stay" in said[0][1]
        await until(lambda: world.nodes["n3"].datapath.external.state.partner == "")


async def test_an_address_moves_when_its_gateway_has_lost_its_link_outside(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        first = await world.until_ready()
        other = {"n2": "n3", "n3": "n2"}[first]
        world.nodes[first].datapath.external.cut.add("outside0")
        await until(lambda: world.carriers() == [other])
        assert "outside0" in (await notes_of(world, first))[ANNOTATION_NODE_FACTS], "the node keeps its own addresses"
        await until_able(world, {other})
        world.nodes[first].datapath.external.cut.clear()
        await until_able(world, {first, other})
        await world.nodes[other].stop()
        await until(lambda: world.carriers() == [first])


async def until_able(world: Planet, expected: set[str]) -> None:
    """Wait until exactly these nodes report that they can carry the address."""
    async with asyncio.timeout(20):
        while True:
            found = await world.admin.resource(GATEWAYS).get(SOURCE, "external-services")
            said, named = found.status.nodes if found.status else (), {each.name for each in found.spec.candidates}
            if {each.name for each in said if each.name in named and not each.errors} == expected:
                return
            await asyncio.sleep(0.02)


async def notes_of(world: Planet, name: str) -> dict[str, str]:
    return (await world.admin.resource(NODES).get(name))["metadata"].get("annotations") or {}


async def test_a_node_without_external_services_has_nothing_of_them(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.pod("web-1", "n1", "10.128.0.5")
        for name in world.nodes:
            while ANNOTATION_NODE_FACTS not in (await world.admin.resource(NODES).get(name))["metadata"].get(
                "annotations", ()
            ):
                await asyncio.sleep(0.02)
        assert not [each for each in threading.enumerate() if each.name == "leases"]
        for node in world.nodes.values():
            assert node.datapath.external.state.empty
            assert sorted(each.name for each in node.root.rglob("*") if each.is_file()) == ["external.key"]
            assert (node.root / "pki" / "external.key").stat().st_mode & 0o777 == 0o600


async def test_a_rule_is_for_the_pod_that_it_names_and_for_no_other_with_its_address(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        await world.until_ready()
        await world.admin.resource(PODS).delete("web-1", "default", grace=0)
        external = world.nodes["n1"].datapath.external
        await until(lambda: not any(each.departures for each in external.state.forwardings))
        assert world.seen() is None


async def test_a_withdrawn_service_leaves_no_rules(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        gateway = await world.until_ready()
        await world.admin.resource(EXTERNAL).delete("db", "default")
        await until(lambda: all(each.datapath.external.state.empty for each in world.nodes.values()))
        assert world.carriers() == []
        await until(lambda: not (world.nodes[gateway].root / "external.json").exists())
        await world.admin.resource(CLAIMS).delete("c", "default")


async def test_an_agent_goes_on_without_the_server_as_it_was(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        gateway = await world.until_ready()
        for node in world.nodes.values():
            assert (node.root / "external.json").stat().st_mode & 0o777 == 0o600
            await node.stop(killed=True)
        states = {name: node.datapath.external.state for name, node in world.nodes.items()}
        for node in world.nodes.values():
            node.datapath.external.drop([SOURCE])
            node.datapath.external.owners.clear()
            node.cable.cut = True
            node.start()
        assert world.nodes["n1"].datapath.external.owners == {}
        await until(lambda: len(world.carriers()) == 1)
        await until(lambda: world.seen() == SOURCE)
        assert {name: node.datapath.external.state for name, node in world.nodes.items()} == states
        for node in world.nodes.values():
            node.cable.cut = False
        await world.until_ready()
        assert gateway in world.nodes


async def test_the_gate_off_removes_all_of_it_and_on_again_restores_it(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        await world.until_ready()
        node = world.nodes["n1"]
        facts = (await world.admin.resource(NODES).get("n1"))["metadata"]["annotations"][ANNOTATION_NODE_FACTS]
        assert json.loads(facts)["interfaces"] == [{"name": "outside0", "addresses": ["192.0.2.201/24"]}]
        await node.stop()
        node.start(ExternalServices=False)
        await until(lambda: node.datapath.external.state.empty)
        assert not list(node.root.glob("external*.json"))
        await world.until_reason("NodeHasNoDatapath")
        await node.stop()
        node.start()
        await world.until_ready()
        await until(lambda: world.seen() == SOURCE)
        again = (await world.admin.resource(NODES).get("n1"))["metadata"]["annotations"][ANNOTATION_NODE_FACTS]
        assert again == facts, "the node publishes its own key again"


async def test_a_stranger_on_the_segment_is_told_of_and_the_address_stays_silent(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        for node in world.nodes.values():
            node.datapath.external.strangers[SOURCE] = "02:00:00:00:00:09"
        await world.prepare()
        await world.until_reason("AddressConflict")
        assert world.carriers() == []
        assert world.seen() is None
        found = await world.source_ip("Conflict")
        assert condition_of(found, "Owned")["reason"] == "AddressConflict"
        [(reason, message)] = await world.events("SourceIP", SOURCE)
        assert reason == "AddressConflict"
        assert "02:00:00:00:00:09" in message


STEPS = {
    "what it knows is kept": (EgressObjectSource, "save"),
    "leases hear of it": (LeaseThread, "serve"),
    "rules are applied": (FakeEgressDatapath, "apply"),
    "it is acknowledged": (EgressStatusWriter, "_apply"),
}


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_an_agent_killed_at_any_step_leaves_nothing_that_the_next_cannot_use(
    tmp_path: Path, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods' node is killed before each step, or the gateway after it."""
    async with planet(tmp_path) as world:
        await world.prepare()
        await world.until_ready()
        for number, (owner, method) in enumerate(STEPS.values()):
            node = world.nodes["n1" if before else world.carriers()[0]]
            died = asyncio.Event()
            with monkeypatch.context() as patched:
                patched.setattr(owner, method, deadly(node, getattr(owner, method), died, before=before))
                await world.listen(9000 + number)
                async with asyncio.timeout(15):
                    await died.wait()
                await node.stop(killed=True)
            node.datapath.external.drop([SOURCE])  # the kernel's timeout does so
            node.start()
            await world.until_ready()
            assert world.seen() == SOURCE, f"{method} of {node.name}"
            assert len(world.carriers()) == 1


def deadly(
    node: Node, real: Callable[..., Awaitable[Any]], died: asyncio.Event, *, before: bool
) -> Callable[..., Awaitable[Any]]:
    """Return a step that ends the agent of one node before or after it; other nodes are unaffected."""

    doomed = node.parts()

    async def step(self: Any, *arguments: Any, **more: Any) -> Any:
        if not any(self is part for part in doomed):
            return await real(self, *arguments, **more)
        if not before:
            await real(self, *arguments, **more)
        died.set()
        return await asyncio.Event().wait()  # the agent does nothing more

    return step
