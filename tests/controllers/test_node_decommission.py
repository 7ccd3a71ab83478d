"""A departing node is drained as budgets allow, until its deadline; then it is removed, its certificates first."""

from __future__ import annotations

import io

from tarmac.api.nodetokens import DELETE_DISKS, LEAVING
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.base.clock import rfc3339
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.noderemoval import node_remove
from tarmac.client.targets.untyped import BUDGETS, LEASES, VOLUME_CLAIMS, VOLUMES
from tarmac.controllers.noderemoval import LEASE_NAMESPACE
from tarmac.controllers.revoking import refused_until
from tests.controllers.cities import Cities, play, pod
from tests.controllers.test_local_disks import made as claimed
from tests.controllers.test_lost_nodes import pinned

NAMES = "scheduler,node,volume,disruption"
NODE = "dfw-0"


async def leaves(cities: Cities, seconds: float, *, node: str = NODE, **more: str) -> None:
    """Announce the departure as `tarmac leave` does. A simulated node's machine stays up until the node is removed."""
    annotations = {LEAVING: rfc3339(cities.world.clock.now() + seconds), **more}
    await cities.nodes.patch(node, {"metadata": {"annotations": annotations}})


async def budget(cities: Cities, least: int) -> None:
    body: JsonObject = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "a"}}},
    }
    await cities.user.resource(BUDGETS).create(body)
    await cities.wait(2)


async def forgotten(cities: Cities) -> bool:
    """Return true if the node is gone or replaced: simulated nodes share one user, and register again."""
    try:
        return LEAVING not in (await cities.nodes.get(NODE))["metadata"].get("annotations", {})
    except NotFound:
        return True


def test_its_pods_go_then_its_certificates_then_it() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "a", NODE)
        before = (await cities.user.resource(LEASES).get(NODE, LEASE_NAMESPACE))["metadata"]["uid"]
        await leaves(cities, 300)
        await cities.until(lambda: forgotten(cities), 60)
        assert await cities.gone(cities.pods, "a", "default")
        lease = await cities.user.resource(LEASES).list(LEASE_NAMESPACE)
        assert before not in [each["metadata"]["uid"] for each in lease.items]
        assert await refused_until(cities.user, f"system:node:{NODE}") > 0
        assert await refused_until(cities.user, "system:node:dfw-1") == 0

    play(NAMES, story)


def test_certificates_of_all_who_left_stay_refused() -> None:
    async def story(cities: Cities) -> None:
        for node in (NODE, "dfw-1"):
            await leaves(cities, 300, node=node)
            await cities.wait(30)
        for node in (NODE, "dfw-1"):
            assert await refused_until(cities.user, f"system:node:{node}") > 0

    play(NAMES, story)


def test_a_leaving_node_gets_no_new_pods() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "a", NODE, labels={"app": "a"})
        await budget(cities, 1)
        await leaves(cities, 300)
        await cities.wait(5)
        assert (await cities.nodes.get(NODE))["spec"]["unschedulable"] is True
        assert not await cities.gone(cities.pods, "a", "default"), "its budget keeps it"

    play(NAMES, story)


def test_budgets_hold_until_the_deadline_and_not_longer() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "a", NODE, labels={"app": "a"})
        await budget(cities, 1)
        await leaves(cities, 60)
        await cities.wait(50)
        assert not await cities.gone(cities.pods, "a", "default")
        await cities.until(lambda: forgotten(cities), 60)
        assert await cities.gone(cities.pods, "a", "default")

    play(NAMES, story)


def test_a_node_that_died_on_its_way_out_goes_all_the_same() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "a", NODE)
        cities.fleet.die(NODE)
        await leaves(cities, 10)
        await cities.until(lambda: forgotten(cities), 120)

    play(NAMES, story)


def test_another_process_of_controllers_goes_on() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "a", NODE)
        await leaves(cities, 30)
        await cities.wait(0.5)
        await cities.stop()
        cities.start(f"serviceaccount,garbage,{NAMES}")
        await cities.until(lambda: forgotten(cities), 90)

    play(NAMES, story)


def test_its_disks_go_only_when_it_says_so() -> None:
    async def story(cities: Cities) -> None:
        await claimed(cities, **{"volume.kubernetes.io/selected-node": NODE})
        volumes, claims = cities.user.resource(VOLUMES), cities.user.resource(VOLUME_CLAIMS)
        assert len((await volumes.list()).items) == 1
        await leaves(cities, 30, **{DELETE_DISKS: "true"})
        await cities.until(lambda: forgotten(cities), 60)
        await cities.wait(5)
        assert (await volumes.list()).items == (await claims.list("default")).items == []

    play(NAMES, story)


def test_a_lost_machines_node_is_removed_and_a_living_one_only_by_force() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "a", NODE)
        await claimed(cities, **{"volume.kubernetes.io/selected-node": NODE})
        out, err = io.StringIO(), io.StringIO()
        console = Console(out, err)
        assert await node_remove(cities.user, NODE, console, force=False) == 1
        assert "run `tarmac leave` on it" in err.getvalue()
        assert await refused_until(cities.user, f"system:node:{NODE}") == 0, "no write happened"
        cities.fleet.die(NODE)
        await cities.wait(60)
        for _ in range(2):  # killed at any point, it continues
            assert await node_remove(cities.user, NODE, console, force=False) == 0
        assert "1 pods and 1 disks" in out.getvalue()
        assert await forgotten(cities)
        assert await cities.gone(cities.pods, "a", "default")
        await cities.wait(5)
        assert (await cities.user.resource(VOLUMES).list()).items == []
        assert await node_remove(cities.user, "nobody", console, force=True) == 1
        assert 'there is no node "nobody"' in err.getvalue()

    play(NAMES, story)


def test_a_living_node_goes_by_force() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("a", nodeName=NODE))
        console = Console(io.StringIO(), io.StringIO())
        assert await node_remove(cities.user, NODE, console, force=True) == 0
        assert await refused_until(cities.user, f"system:node:{NODE}") > 0
        assert await cities.gone(cities.pods, "a", "default")

    play(NAMES, story)
