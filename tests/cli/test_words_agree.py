"""Conditions, columns and `why` give the same reason for a Workload without a node, on every level."""

from __future__ import annotations

import pytest

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import NODES
from tests.cli.test_verbs_on_a_planet import Desk, big, settled
from tests.controllers.planet import Planet, conditions, play

CORDON = {"spec": {"unschedulable": True}}
PRESSURE = {"status": {"conditions": [{"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure"}]}}


async def words(planet: Planet, desk: Desk) -> set[str]:
    """Return every reason."""
    found: set[str] = set()
    for kind, short in ((planet.workloads, "wl"), (planet.deployments, "wd")):
        for each in await planet.all(kind):
            said = conditions(each)
            found |= {said[word]["reason"] for word in ("Available", "Progressing", "Ready")}
            found.add(each["status"]["summary"]["reason"])
            found.add((await desk.why(f"{short}/{each['metadata']['name']}")).verdicts[0].reason)
    for each in await planet.all(planet.instances):
        found.add(conditions(each)["Ready"]["reason"])
        found.add((await desk.why(f"inst/{each['metadata']['name']}")).verdicts[0].reason)
    return found


@pytest.mark.parametrize(
    ("patch", "cpu", "reason"),
    [
        (CORDON, "1", "NodeUnschedulable"),
        (PRESSURE, "1", "TaintNotTolerated"),
        ({}, "1000", "InsufficientCapacity"),
    ],
    ids=["cordon", "disk pressure", "no room"],
)
def test_one_cause_has_one_name(patch: JsonObject, cpu: str, reason: str) -> None:
    async def story(planet: Planet) -> None:
        desk, nodes = await settled(planet), planet.user.resource(NODES)
        for name in ("dfw-0", "dfw-1"):
            await nodes.patch(name, patch, subresource="status" if "status" in patch else "", type="strategic")
        await planet.wait(5)
        await planet.workloads.create(big(cpu, replicas=1))
        await planet.wait(15)
        assert await words(planet, desk) == {reason}

    play(story)


def test_another_cause_gets_its_own_name_when_it_comes() -> None:
    async def story(planet: Planet) -> None:
        desk, nodes = await settled(planet), planet.user.resource(NODES)
        await planet.workloads.create(big("1000", replicas=1))
        await planet.wait(15)
        assert await words(planet, desk) == {"InsufficientCapacity"}
        for name in ("dfw-0", "dfw-1"):
            await nodes.patch(name, CORDON)
        await planet.wait(120)
        assert await words(planet, desk) == {"NodeUnschedulable"}
        assert (await planet.all(planet.pods))[0]["status"]["conditions"][0]["reason"] == "Unschedulable"

    play(story)
