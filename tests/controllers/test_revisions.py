"""Templates of rolled-out revisions are kept in ControllerRevisions, also across failures and crashes."""

from __future__ import annotations

import base64
import zlib
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from tarmac.api.compute.strategies import WorkloadStrategy
from tarmac.api.ownkinds import OwnStrategy
from tarmac.api.schema import JsonObject
from tarmac.client.targets.typed import WORKLOADS as TYPED
from tarmac.client.targets.untyped import CONTROLLER_REVISIONS, RESOURCE_QUOTAS
from tarmac.controllers.workload.revisions import Revisions
from tarmac.decide.rollout.stored import history_now
from tests.controllers.planet import Planet, conditions, play, workload

BROKEN = "nowhere.invalid/app:9"
QUICK = {"minReadySeconds": 1, "progressDeadlineSeconds": 60}


def template(image: str) -> JsonObject:
    return workload(image=image)["spec"]["template"]


# A server of that version accepted templates in the status.
AS_BEFORE = patch.object(WorkloadStrategy, "validate_status_update", OwnStrategy.validate_status_update)


def packed(image: str) -> str:
    """Return a template as status had it in earlier versions."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(template(image)), 9)).decode()


async def kept(planet: Planet) -> dict[str, JsonObject]:
    return {each["metadata"]["name"]: each for each in await planet.all(planet.user.resource(CONTROLLER_REVISIONS))}


async def revisions(planet: Planet) -> list[JsonObject]:
    return (await planet.workload())["status"]["revisions"]


async def images(planet: Planet) -> set[str]:
    found = await planet.all(planet.deployments)
    return {each["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] for each in found}


async def rolled_out(planet: Planet, *tags: str, cities: tuple[str, ...] = ("DFW", "LHR")) -> None:
    """Roll out one image after the other, each to its end."""
    await planet.apply(cities=cities, replicas=1, rollout=QUICK, image=f"example.com/app:{tags[0]}")
    await planet.until(lambda: completed(planet, 1))
    for number, tag in enumerate(tags[1:], start=2):
        await planet.edit(template=template(f"example.com/app:{tag}"))
        await planet.until(lambda number=number: completed(planet, number))


async def completed(planet: Planet, number: int) -> bool:
    """Return true if a revision was complete in every city, for as long as the controller observes it."""
    found = (await planet.workload()).get("status", {}).get("revisions", [])
    return any(each["number"] == number and "completed" in each for each in found)


async def fails(planet: Planet) -> None:
    """Wait until the newest revision fails, and its cities have rolled back."""

    async def failed() -> bool:
        found = conditions(await planet.workload()).get("Progressing", {})
        return found.get("reason") == "RolloutFailed" and BROKEN not in await images(planet)

    await planet.edit(template=template(BROKEN))
    await planet.wait(1)
    await planet.until(failed)


def test_each_template_is_kept_once_beside_the_workload_and_goes_with_it() -> None:
    async def story(planet: Planet) -> None:
        await rolled_out(planet, "1", "2")
        found, known = await kept(planet), await revisions(planet)
        assert [found[each["template"]]["revision"] for each in known] == [1, 2]
        assert [found[each["template"]]["data"]["spec"]["template"]["spec"] for each in known] == [
            template(f"example.com/app:{tag}")["spec"] | {"networkInterfaces": _named()} for tag in "12"
        ]
        assert max(len(each["template"]) for each in known) < 60, "`kubectl describe` prints the status"
        owner = (await planet.workload())["metadata"]
        assert {each["metadata"]["ownerReferences"][0]["uid"] for each in found.values()} == {owner["uid"]}
        await planet.workloads.delete("web", "default")
        await planet.gone(planet.workloads)
        for name in found:
            await planet.gone(planet.user.resource(CONTROLLER_REVISIONS), name)

    play(story)


def _named() -> list[JsonObject]:
    return [{"name": "eth0", "network": {"name": "default"}}]


@AS_BEFORE
def test_templates_that_an_earlier_version_kept_in_the_status_move_and_cities_go_back_to_them() -> None:
    async def story(planet: Planet) -> None:
        await rolled_out(planet, "1", "2")
        await planet.stop()
        await _as_before(planet, packed("example.com/app:1"), packed("example.com/app:2"))
        await planet.edit(template=template(BROKEN))  # during the upgrade
        planet.start()
        await planet.wait(1)
        await planet.until(lambda: _has_gone_back(planet, "example.com/app:2"))
        found, known = await kept(planet), await revisions(planet)
        assert [each["number"] for each in known] == [1, 2, 3]
        assert {each["template"] for each in known} == set(found)

    play(story)


@AS_BEFORE
def test_unreadable_packed_revisions_are_left_out_of_the_migration() -> None:
    async def story(planet: Planet) -> None:
        await rolled_out(planet, "1", "2")
        await planet.stop()
        await _as_before(planet, "eNonsense", packed("example.com/app:2"))
        planet.start()
        await planet.wait(5)
        known = await revisions(planet)
        assert ([each["number"] for each in known], set(await kept(planet))) == ([2], {known[0]["template"]})

    play(story)


async def _as_before(planet: Planet, *templates: str) -> None:
    """Write the status as an earlier version left it, without ControllerRevisions."""
    known = await revisions(planet)
    old = [{**each, "template": text} for each, text in zip(known, templates, strict=True)]
    await planet.workloads.patch("web", {"status": {"revisions": old}}, "default", subresource="status")
    for name in await kept(planet):
        await planet.user.resource(CONTROLLER_REVISIONS).delete(name, "default")


async def _has_gone_back(planet: Planet, image: str) -> bool:
    found = conditions(await planet.workload()).get("Progressing", {})
    return found.get("reason") == "RolloutFailed" and await images(planet) == {image}


async def _keep_and_end(planet: Planet) -> None:
    """Run a controller that ends after storing the newest template, and before writing its status."""
    found = TYPED.decode(msgspec.json.encode(await planet.workload()))
    await Revisions(planet.user, "test").keep(found, history_now(found, planet.world.clock.now()))


def test_a_controller_that_ends_between_template_and_status_has_lost_nothing() -> None:
    async def story(planet: Planet) -> None:
        await rolled_out(planet, "1")
        await planet.stop()
        await planet.edit(template=template("example.com/app:2"))
        await _keep_and_end(planet)
        assert len(await kept(planet)) == 2
        planet.start()
        await planet.until(lambda: completed(planet, 2))
        await fails(planet)
        assert await images(planet) == {"example.com/app:2"}
        assert [each["number"] for each in await revisions(planet)] == [1, 2, 3]
        assert len(await kept(planet)) == 3

    play(story)


@pytest.mark.parametrize("lasts", ["1s", "2s", "8s"])
def test_a_release_that_is_ready_and_exits_never_leaves_its_first_city(lasts: str) -> None:
    """The first restart is immediate: the instance is ready except during the back-off after the second."""

    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR", "SEA"), replicas=1, image="example.com/app:1")
        await planet.until(lambda: completed(planet, 1))
        bad = template("example.com/app:2")
        bad["metadata"]["annotations"] = {"sim.tarmac/crash-after": lasts}
        await planet.edit(template=bad)
        reached: set[str] = set()
        for _ in range(240):
            await planet.wait(0.5)
            for each in await planet.all(planet.deployments):
                if each["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"].endswith(":2"):
                    reached.add(each["spec"]["cityCode"])
        assert reached == {"DFW"}
        assert await images(planet) == {"example.com/app:1"}, "it was rolled back"
        failure = (await planet.workload())["status"]["rollout"]["failure"]
        assert (failure["city"], failure["reason"]) == ("DFW", "InstanceCrashing")

    play(story)


def test_a_release_that_exits_once_leaves_its_first_city_after_five_quiet_minutes() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR", "SEA"), replicas=1, rollout=QUICK, image="example.com/app:1")
        await planet.until(lambda: completed(planet, 1))
        exits = template("example.com/app:2")
        exits["metadata"]["annotations"] = {"sim.tarmac/crash-after": "500ms", "sim.tarmac/crashes": "1"}
        await planet.edit(template=exits)
        await planet.wait(280)
        found = await planet.workload()
        assert (found["status"]["rollout"]["updatedCities"], found["status"]["readyReplicas"]) == (1, 3)
        await planet.until(lambda: reaches(planet, 3), 60)

    async def reaches(planet: Planet, cities: int) -> bool:
        return (await planet.workload())["status"]["rollout"]["updatedCities"] == cities

    play(story)


def test_a_template_that_nobody_names_goes_with_the_next_revision() -> None:
    async def story(planet: Planet) -> None:
        await rolled_out(planet, "1")
        await planet.stop()
        await planet.edit(template=template("example.com/app:2"))
        await _keep_and_end(planet)
        await planet.edit(template=template("example.com/app:3"))
        planet.start()
        await planet.wait(1)
        await planet.ready(2)
        known = await revisions(planet)
        assert [each["number"] for each in known] == [1, 2]
        assert {each["template"] for each in known} == set(await kept(planet))

    play(story)


def test_cities_go_back_to_an_earlier_revision_when_the_last_one_was_removed() -> None:
    async def story(planet: Planet) -> None:
        await rolled_out(planet, "1", "2")
        await planet.user.resource(CONTROLLER_REVISIONS).delete((await revisions(planet))[-1]["template"], "default")
        await fails(planet)
        found = await planet.all(planet.deployments)
        assert "example.com/app:1" in await images(planet), found
        assert [each["number"] for each in await revisions(planet)] == [1, 3]

    play(story)


def test_a_quota_without_room_for_templates_holds_up_nothing_else() -> None:
    async def story(planet: Planet) -> None:
        quota: Any = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
        quota["spec"] = {"hard": {"count/controllerrevisions.apps": "0"}}
        await planet.user.resource(RESOURCE_QUOTAS).create(quota)
        await rolled_out(planet, "1")
        assert [each["template"] for each in await revisions(planet)] == [""]
        await planet.user.resource(RESOURCE_QUOTAS).delete("q", "default")
        await planet.edit(paused=True)  # any change, to make the controller run
        await planet.wait(5)
        assert {each["template"] for each in await revisions(planet)} == set(await kept(planet)) != {""}

    play(story)
