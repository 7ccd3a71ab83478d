"""Gateways announce what they reach themselves, and withdraw what only they do not reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import SERVICES
from tarmac.decide.ingress import selftests
from tests.agent.egress.nodes import until
from tests.agent.ingress.test_bgp_agents import announcing, prepare
from tests.agent.ingress.test_ingress_agents import PUBLIC, Town, town

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("INTERVAL", 0.05), ("RETRY", 0.02), ("MIN_HOLD", 0.1), ("MAX_HOLD", 0.2)):
        monkeypatch.setattr(selftests, name, seconds)


def reaches(world: Town, node: str, *, reached: bool) -> None:
    """Set whether a node's own connections to the address succeed."""
    unreachable = world.nodes[node].datapath.ingress.unreachable
    unreachable.discard(PUBLIC) if reached else unreachable.add(PUBLIC)


def reason_of(found: dict[str, JsonObject], node: str) -> str:
    return str(found.get(node, {}).get("reason", ""))


async def test_a_gateway_whose_own_connections_fail_withdraws_and_comes_back(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == ["n2", "n3"])
        await world.until_entries(lambda found: bool(found.get("n3", {}).get("announcing")))
        reaches(world, "n2", reached=False)
        await until(lambda: announcing(world) == ["n3"])
        said = await world.until_entries(lambda found: not found["n2"]["announcing"])
        assert (reason_of(said, "n2"), said["n3"]["announcing"]) == ("SelfTestFailed", True)
        reaches(world, "n2", reached=True)
        await until(lambda: announcing(world) == ["n2", "n3"])
        await world.until_entries(lambda found: found["n2"]["announcing"] and not reason_of(found, "n2"))


async def test_gateways_that_all_fail_go_on_and_say_so(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == ["n2", "n3"])
        for node in ("n2", "n3"):
            reaches(world, node, reached=False)
        await world.until_entries(
            lambda found: all(reason_of(found, node) == "SelfTestFailed" for node in ("n2", "n3"))
        )
        # Each may have withdrawn for a moment, before it knew of the other's failure.
        await until(lambda: announcing(world) == ["n2", "n3"])
        await world.until_entries(lambda found: all(found[node]["announcing"] for node in ("n2", "n3")))
        assert world.answer() is not None


async def test_an_address_that_a_new_gateway_does_not_reach_is_left_to_the_other(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        reaches(world, "n2", reached=False)
        await prepare(world)
        await until(lambda: announcing(world) == ["n3"])
        await world.until_entries(lambda found: reason_of(found, "n2") == "SelfTestFailed")
        assert announcing(world) == ["n3"]


async def test_an_owner_that_does_not_reach_its_address_hands_it_over(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await world.prepare()
        await until(lambda: len(world.owners()) == 1)
        (owner,) = world.owners()
        other = "n3" if owner == "n2" else "n2"
        await world.until_entries(lambda found: other in found and not reason_of(found, other))
        reaches(world, owner, reached=False)
        await until(lambda: world.owners() == [other])
        await world.until_entries(lambda found: reason_of(found, owner) == "SelfTestFailed")


async def test_a_service_that_forbids_the_nodes_is_announced_without_tests(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        spec = {"loadBalancerSourceRanges": ["203.0.113.0/24"]}
        await world.admin.resource(SERVICES).patch("web", {"spec": spec}, "default")
        await until(lambda: all(each.ingress and not each.ingress._reconciler.tests.known for each in gateways(world)))  # type: ignore[union-attr]
        for node in ("n2", "n3"):
            reaches(world, node, reached=False)
        await until(lambda: announcing(world) == ["n2", "n3"])


def gateways(world: Town):
    return [world.nodes[node] for node in ("n2", "n3")]


async def test_a_check_dials_only_open_ports_of_public_addresses(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == ["n2", "n3"])
        ingress = world.nodes["n2"].ingress
        assert ingress is not None
        found = await ingress.check(PUBLIC, 80)
        assert found is not None
        assert (found.problem, found.nodes) == ("", [world.nodes["n1"].address])
        assert await ingress.check(PUBLIC, 81) is None
        assert await ingress.check("192.0.2.99", 80) is None
        reaches(world, "n2", reached=False)
        found = await ingress.check(PUBLIC, 80)
        assert found is not None
        assert "does not answer" in found.problem
