"""A Workload's status sums its deployments incrementally, and equals the status that a new controller would write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import LABEL_MOVED_FROM, deployment_name
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.base.clock import rfc3339
from tarmac.controllers.workload.controller import REPORT_SECONDS
from tarmac.decide.rollout.template import template_hash
from tests.controllers.planet import PLACES, Planet, conditions, play, workload
from tests.soak import SOAK

NAMES = "garbage,namespace,serviceaccount,network,workload"  # deployments report by hand
CITIES = [place.city for place in PLACES]
WANTED = 4
_SETTLE_SECONDS = 3 * REPORT_SECONDS
_WAVE_SECONDS = 15.0  # longer than a city must stay ready


@dataclass(frozen=True)
class Do:
    """One action of a sequence."""

    what: str
    city: str = ""
    number: int = 0


_OTHERS = ("delete", "lose", "cities", "image", "scale", "restart", "relist", "meddle", "edit", "burst")


def _chosen(what: str) -> st.SearchStrategy[Do]:
    return st.builds(Do, st.just(what), st.sampled_from(CITIES), st.integers(0, WANTED))


steps = st.lists(
    st.one_of(
        _chosen("report"),
        _chosen("report"),
        _chosen("report"),
        *(_chosen(what) for what in _OTHERS),
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=1000 if SOAK else 60)
@given(steps)
def test_any_sequence_leaves_the_status_that_a_fresh_controller_writes(sequence: Sequence[Do]) -> None:
    async def story(planet: Planet) -> None:
        await _begin(planet)
        for number, step in enumerate(sequence):
            await _act(planet, step, number)
            await planet.wait(_SETTLE_SECONDS)
            await _counters_add_up(planet)
        await planet.wait(_WAVE_SECONDS)
        before = (await planet.workload())["status"], await planet.versions()
        await planet.stop()
        planet.start(NAMES)
        await planet.wait(_WAVE_SECONDS)
        assert ((await planet.workload())["status"], await planet.versions()) == before

    play(story)


def test_counters_are_written_once_a_second_at_most() -> None:
    async def story(planet: Planet) -> None:
        await _begin(planet)
        await _report(planet, "DFW", 0)
        await planet.wait(_SETTLE_SECONDS)
        before = int((await planet.workload())["metadata"]["resourceVersion"])
        versions = {before}
        for number in range(40):  # four seconds
            await _report(planet, "DFW", number % WANTED)
            await planet.wait(0.1)
            versions.add(int((await planet.workload())["metadata"]["resourceVersion"]))
        assert 3 <= len(versions) - 1 <= 5
        await planet.wait(REPORT_SECONDS + 0.5)
        await _counters_add_up(planet)

    play(story)


def test_completeness_is_told_without_waiting_for_the_counters() -> None:
    """A client that waits for Ready does not wait for the counters' interval."""

    async def story(planet: Planet) -> None:
        await _begin(planet, ("DFW",))
        await _report(planet, "DFW", WANTED - 1)
        await planet.wait(_SETTLE_SECONDS)
        await _report(planet, "DFW", WANTED)
        await planet.wait(0.5)
        found = await planet.workload()
        assert conditions(found)["Progressing"]["reason"] == "Complete"
        await planet.wait(0.5)
        (record,) = (await planet.workload())["status"]["revisions"]
        assert "completed" in record

    play(story)


def test_a_deployment_that_is_edited_by_hand_is_put_back() -> None:
    """Between two updates of counters, which do not compare specifications."""

    async def story(planet: Planet) -> None:
        await _begin(planet)
        await _report(planet, "DFW", 1)
        await planet.wait(_SETTLE_SECONDS)
        await _act(planet, Do("edit", "DFW"), 0)
        await planet.wait(0.5)
        found = await planet.deployments.get(deployment_name("web", "all", "DFW"), "default")
        assert "paused" not in found["spec"]

    play(story)


async def _begin(planet: Planet, cities: tuple[str, ...] = ("DFW", "LHR", "SEA")) -> None:
    await planet.stop()
    planet.start(NAMES)
    await planet.apply(cities=cities, replicas=WANTED)
    await planet.wait(_SETTLE_SECONDS)


async def _act(planet: Planet, step: Do, number: int) -> None:
    try:
        await _try(planet, step, number)
    except NotFound:
        return  # the city has no deployment now


async def _try(planet: Planet, step: Do, number: int) -> None:
    name = deployment_name("web", "all", step.city)
    match step.what:
        case "report":
            await _report(planet, step.city, step.number)
        case "delete":
            await planet.deployments.delete(name, "default")
            await planet.wait(_SETTLE_SECONDS if step.number % 2 else 0)
            await planet.deployments.patch(name, {"metadata": {"finalizers": None}}, "default")
        case "lose":
            (place,) = (each for each in PLACES if each.city == step.city)
            await planet.open(place, ready=step.number % 2 == 0)
        case "cities":
            kept = tuple(city for city in CITIES if city != step.city or step.number > 2)
            await planet.edit(placements=workload(cities=kept, replicas=WANTED)["spec"]["placements"])
        case "image":
            await planet.edit(template=workload(image=f"example.com/app:{number}")["spec"]["template"])
        case "scale":
            await planet.deployments.patch(name, {"spec": {"replicas": max(step.number, 1)}}, "default")
        case "restart":
            await planet.stop()
            await _report(planet, step.city, step.number)
            planet.start(NAMES)
        case "relist":
            await planet.relist()
        case "edit":
            await planet.deployments.patch(name, {"spec": {"paused": True}}, "default")
        case "burst":
            (place,) = (each for each in PLACES if each.city == step.city)
            reports = (_report(planet, city, (step.number + turn) % WANTED) for turn in range(3) for city in CITIES)
            await asyncio.gather(planet.open(place), *reports, return_exceptions=True)
        case "meddle":
            await planet.workloads.patch("web", {"status": {"readyReplicas": 77}}, "default", subresource="status")
        case _:
            raise AssertionError(step.what)


async def _report(planet: Planet, city: str, ready: int) -> None:
    """Write the status that the city's own controller would."""
    found = await planet.deployments.get(deployment_name("web", "all", city), "default")
    wanted = found["spec"].get("replicas", WANTED)
    ready = min(ready, wanted)
    complete, now = ready == wanted, rfc3339(planet.world.clock.now())
    progress = ("True", "Complete" if complete else "Scaling", f"{city}: {ready} of {wanted} are ready")
    said = {
        "Available": ("True" if ready else "False", "StableInstanceFound", f"{ready}/{wanted} instances are ready"),
        "Progressing": progress,
        "Ready": ("True" if complete else "False", *progress[1:]),
    }
    status: dict[str, Any] = {
        "observedGeneration": found["metadata"]["generation"],
        "revision": template_hash(decode(InstanceTemplate, found["spec"]["template"])),
        "replicas": wanted,
        "desiredReplicas": wanted,
        "updatedReplicas": wanted,
        "currentReplicas": ready,
        "readyReplicas": ready,
        "lastProgressTime": now,
        "conditions": [
            {"type": name, "status": truth, "reason": reason, "message": message, "lastTransitionTime": now}
            for name, (truth, reason, message) in said.items()
        ],
    }
    await planet.deployments.patch(found["metadata"]["name"], {"status": status}, "default", subresource="status")


async def _counters_add_up(planet: Planet) -> None:
    status = (await planet.workload())["status"]
    deployments = await planet.all(planet.deployments)
    own = [each for each in deployments if LABEL_MOVED_FROM not in each["metadata"]["labels"]]
    assert status["deployments"] == len(own)
    for name in ("replicas", "readyReplicas"):
        assert status.get(name, 0) == sum(_counted(each, name) for each in own), name
    staying = [each for each in own if "deletionTimestamp" not in each["metadata"]]
    located = [each["status"]["location"]["name"] for each in staying if "location" in each.get("status", {})]
    (placement,) = status["placements"]
    assert placement.get("locations", []) == sorted(located)


def _counted(deployment: JsonObject, name: str) -> int:
    return deployment.get("status", {}).get(name, 0)
