"""The catalogue of instance types: built-in entries are restored, deprecated by operators, and kept while in use."""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.apps.bootstrap import ensure_initial_objects
from tarmac.client.targets.target import dynamic
from tests.controllers.planet import NAMES, Planet, conditions, play, workload

TYPES = dynamic(API_VERSION, "instancetypes", "InstanceType", namespaced=False)
SMALL, LARGE = "datumcloud-d1-standard-1", "datumcloud-d1-standard-2"


def _types(planet: Planet) -> Any:
    return planet.user.resource(TYPES)


async def _restarted(planet: Planet) -> None:
    await planet.stop()
    planet.start(f"{NAMES},instancetype")
    await planet.wait(5)


async def _retire(planet: Planet, phase: str) -> JsonObject:
    lifecycle = {"phase": phase, "replacementInstanceType": LARGE}
    await _types(planet).patch(SMALL, {"spec": {"lifecycle": lifecycle}})
    await planet.wait(5)
    return await _types(planet).get(SMALL)


def test_a_type_of_the_catalogue_that_is_deleted_comes_back() -> None:
    async def story(planet: Planet) -> None:
        await _restarted(planet)
        await _types(planet).delete(SMALL)
        await planet.wait(5)
        assert (await _types(planet).get(SMALL))["spec"]["resources"] == {"cpu": "1", "memory": "1Gi"}

    play(story)


def test_a_type_of_the_catalogue_stays_as_its_operator_left_it_when_a_server_starts() -> None:
    async def story(planet: Planet) -> None:
        await _retire(planet, "Deprecated")
        await ensure_initial_objects(planet.user)
        assert (await _types(planet).get(SMALL))["spec"]["lifecycle"]["phase"] == "Deprecated"

    play(story)


def test_a_type_tells_how_far_its_life_has_come() -> None:
    async def story(planet: Planet) -> None:
        await _restarted(planet)
        seen = await _types(planet).get(SMALL)
        assert (conditions(seen)["Ready"]["status"], conditions(seen)["Ready"]["reason"]) == ("True", "Active")
        assert "deprecatedAt" not in seen["status"]
        seen = await _retire(planet, "Deprecated")
        since = seen["status"]["deprecatedAt"]
        assert conditions(seen)["Ready"]["reason"] == "InstanceTypeDeprecated"
        assert f"Use {LARGE}." in conditions(seen)["Ready"]["message"]
        seen = await _retire(planet, "Disabled")
        assert (conditions(seen)["Ready"]["status"], seen["status"]["deprecatedAt"]) == ("False", since)

    play(story)


def test_a_type_that_is_used_is_not_deleted_before_its_last_user() -> None:
    async def story(planet: Planet) -> None:
        await _restarted(planet)
        own = {"apiVersion": API_VERSION, "kind": "InstanceType", "metadata": {"name": "acme-x1"}}
        await _types(planet).create({**own, "spec": {"resources": {"cpu": "1", "memory": "1Gi"}}})
        made = workload(replicas=1)
        made["spec"]["template"]["spec"]["runtime"]["resources"] = {"instanceType": "acme/x1"}
        await planet.until(lambda: _any(planet, planet.networks))
        await planet.workloads.create(made)
        await planet.ready(1)
        await _types(planet).delete("acme-x1")
        await planet.wait(60)
        (pod,) = await planet.all(planet.pods)
        await planet.pods.delete(pod["metadata"]["name"], "default", grace=0)
        await planet.wait(1)
        await planet.ready(1)
        await planet.workloads.delete("web", "default")
        await planet.until(lambda: _lacks(planet, "acme-x1"))

    async def _any(planet: Planet, resource: Any) -> bool:
        return bool(await planet.all(resource))

    async def _lacks(planet: Planet, name: str) -> bool:
        return name not in {each["metadata"]["name"] for each in (await _types(planet).list()).items}

    play(story)
