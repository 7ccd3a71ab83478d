"""A Workload's status, computed from its placements and their deployments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.compute.workload import Counters, WorkloadStatus
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.instances import InstanceView
from tarmac.decide.rollup import (
    DeploymentFacts,
    DeploymentTally,
    DeploymentView,
    PlacementFacts,
    WorkloadFacts,
    deployment_status,
)
from tarmac.decide.rollup.workload import workload_status
from tarmac.decide.verdict import Refusal

NOW = 1_800_000_000.0


def in_city(
    city: str, *unready: str, ready: int = 2, old: int = 0, deleting: bool = False, **known: Any
) -> DeploymentView:
    """Return a rolled-up deployment with these numbers of ready and outdated instances, and reasons of the rest."""
    instances = [InstanceView(f"{city}-{n}", n, "a", ready=True) for n in range(ready)]
    instances += [InstanceView(f"{city}-{ready + n}", ready + n, "old", ready=True) for n in range(old)]
    instances += [InstanceView(f"{city}-x{n}", ready + old + n, "a", reason=why) for n, why in enumerate(unready)]
    facts = DeploymentFacts(
        city=city, generation=1, desired=ready + old + len(unready), template_hash="a", instances=instances, **known
    )
    status, _ = deployment_status(facts, None, NOW)
    conditions = {each.type: each for each in status.conditions}
    assert status.summary is not None
    return DeploymentView(
        city=city,
        counters=status,
        available=conditions["Available"],
        progressing=conditions["Progressing"],
        trouble=status.summary.reason,
        location=city.lower(),
        deleting=deleting,
    )


def tally(deployments: Iterable[DeploymentView]) -> DeploymentTally:
    """Return the tally of deployments, named in order."""
    return DeploymentTally((f"web-{number:04}", each) for number, each in enumerate(deployments))


def placement(name: str, *deployments: DeploymentView, **known: Any) -> PlacementFacts:
    """Return a placement that names the cities of its deployments."""
    cities = [each.city for each in deployments]
    return PlacementFacts(name=name, cities=cities, deployments=tally(deployments), **known)


def look(*placements: PlacementFacts, **known: Any) -> WorkloadStatus:
    """Return the first status."""
    return workload_status(WorkloadFacts(generation=4, placements=placements, **known), None, NOW)


def condition(status: WorkloadStatus, type: str) -> Condition:
    """Return one of its conditions."""
    return next(each for each in status.conditions if each.type == type)


def columns(status: WorkloadStatus) -> tuple[str, str, str, str]:
    """Return READY CITIES STATUS REASON."""
    assert status.summary is not None
    return status.summary.ready, status.summary.cities, status.summary.status, status.summary.reason


def test_all_is_well() -> None:
    """Two placements, three cities."""
    status = look(placement("us", in_city("DFW"), in_city("SEA")), placement("eu", in_city("LHR", ready=3)))
    assert (status.replicas, status.ready_replicas, status.desired_replicas, status.deployments) == (7, 7, 7, 3)
    assert [(each.name, each.ready_replicas, each.locations) for each in status.placements] == [
        ("us", 4, ["dfw", "sea"]),
        ("eu", 3, ["lhr"]),
    ]
    assert condition(status, "Available").reason == reasons.AVAILABLE_PLACEMENT_FOUND
    assert condition(status, "Progressing").reason == reasons.COMPLETE
    assert columns(status) == ("7/7", "3/3", "Available", "")


def test_the_sample_of_the_specification() -> None:
    """Seven of ten run, the quota allows no more: available, not progressing, and the city is named."""
    full = in_city("DFW", *[reasons.QUOTA_EXHAUSTED] * 3, ready=7)
    status = look(placement("us", full))
    assert condition(status, "Available").status == "True"
    progress = condition(status, "Progressing")
    assert (progress.status, progress.reason) == ("False", reasons.QUOTA_EXHAUSTED)
    assert "DFW" in progress.message
    assert columns(status) == ("7/10", "1/1", "Degraded", "QuotaExhausted")


def test_the_most_actionable_city_is_shown_and_all_that_share_its_reason() -> None:
    """Quota outranks room on nodes."""
    status = look(
        placement("us", in_city("DFW", reasons.QUOTA_EXHAUSTED), in_city("SEA", reasons.INSUFFICIENT_CAPACITY)),
        placement("eu", in_city("LHR", reasons.QUOTA_EXHAUSTED)),
    )
    progress = condition(status, "Progressing")
    assert progress.reason == reasons.QUOTA_EXHAUSTED
    assert "DFW" in progress.message
    assert "LHR" in progress.message
    assert "SEA" not in progress.message


def test_a_placement_that_matches_nothing_is_reported() -> None:
    """Beside a matching one."""
    nothing = PlacementFacts(
        name="oc", blocks=[Refusal(reasons.NO_MATCHING_LOCATIONS, "No location has region OC.")], cities=["SYD"]
    )
    status = look(placement("us", in_city("DFW")), nothing)
    available = {each.name: each.conditions[0] for each in status.placements}
    assert (available["oc"].status, available["oc"].reason) == ("False", reasons.NO_MATCHING_LOCATIONS)
    assert condition(status, "Available").status == "True"
    assert condition(status, "Progressing").reason == reasons.NO_MATCHING_LOCATIONS
    assert columns(status) == ("2/2", "1/2", "Degraded", "NoMatchingLocations")


def test_a_missing_network_is_what_the_workload_shows() -> None:
    """It outranks all generic reasons."""
    missing = Refusal(reasons.NETWORK_NOT_FOUND, "Unable to find networks: backend")
    status = look(PlacementFacts(name="us", cities=["DFW"]), blocks=[missing])
    available = condition(status, "Available")
    assert (available.status, available.reason, available.message) == ("False", missing.reason, missing.message)
    assert condition(status, "Progressing").status == "False"
    assert columns(status) == ("0/0", "0/1", "Pending", "NetworkNotFound")


@pytest.mark.parametrize(
    ("deployments", "progress", "word"),
    [
        ([in_city("DFW", old=1), in_city("SEA")], reasons.NEW_REVISION, "Progressing"),
        ([in_city("DFW", reasons.STARTING), in_city("SEA")], reasons.SCALING, "Progressing"),
        ([in_city("DFW", old=1), in_city("SEA", reasons.STARTING)], reasons.NEW_REVISION, "Progressing"),
        ([in_city("DFW", reasons.STARTING, ready=0)], reasons.SCALING, "Pending"),
        ([in_city("DFW"), in_city("SEA", deleting=True)], reasons.SCALING, "Progressing"),
        ([DeploymentView(city="DFW")], reasons.SCALING, "Pending"),
        ([], reasons.SCALING, "Pending"),
    ],
)
def test_progress_is_that_of_the_least_advanced(deployments: list[DeploymentView], progress: str, word: str) -> None:
    """Blocked, then rolling, then scaling, then complete."""
    status = look(placement("us", *deployments))
    assert condition(status, "Progressing").reason == progress
    assert columns(status)[2] == word


def test_paused_and_deleting_are_said() -> None:
    """Regardless of other conditions."""
    rolling = in_city("DFW", old=1, paused=True)
    status = look(placement("us", rolling), paused=True)
    assert condition(status, "Progressing").status == "Unknown"
    assert columns(status)[2] == "Paused"
    assert columns(look(placement("us", rolling), paused=True, deleting=True))[2] == "Deleting"


def test_instances_of_a_removed_placement_are_counted() -> None:
    """Until it is gone."""
    status = look(placement("us", in_city("DFW")), orphans=tally([in_city("LHR", ready=1, deleting=True)]))
    assert (status.replicas, status.deployments) == (3, 2)


def test_a_thousand_cities_fit_into_a_condition() -> None:
    """Messages have a limit, and a longer one could not be written."""
    codes = [f"{chr(65 + number // 676)}{chr(65 + number // 26 % 26)}{chr(65 + number % 26)}" for number in range(1000)]
    refused = look(placement("all", *(in_city(code, reasons.QUOTA_EXHAUSTED, ready=0) for code in codes)))
    assert condition(refused, "Progressing").message.endswith("; and 990 more cities")
    scaling = condition(look(placement("all", *(in_city(code, reasons.STARTING) for code in codes))), "Progressing")
    assert scaling.message.startswith("Scaling in AAA, AAB, ")
    assert scaling.message.endswith("AAT and 980 more")
    blocked = [Refusal(reasons.NO_CANDIDATE_LOCATIONS, "No Location.", code) for code in codes]
    message = condition(look(PlacementFacts(name="all", cities=codes, blocks=blocked)), "Progressing").message
    assert message.endswith("AAU and 979 more.")


cities = st.builds(
    in_city,
    st.sampled_from(["DFW", "SEA", "LHR"]),
    st.sampled_from(sorted(reasons.CATALOGUE)),
    ready=st.integers(0, 3),
    old=st.integers(0, 2),
    deleting=st.booleans(),
)
blocks = st.lists(st.sampled_from(sorted(reasons.CATALOGUE)).map(lambda code: Refusal(code, "because")), max_size=1)
placements = st.builds(
    PlacementFacts,
    name=st.uuids().map(str),
    cities=st.just(["DFW"]),
    deployments=st.lists(cities, max_size=3).map(tally),
    blocks=blocks,
)
anything = st.builds(
    WorkloadFacts,
    generation=st.just(4),
    placements=st.lists(placements, max_size=3, unique_by=lambda each: each.name),
    orphans=st.lists(cities, max_size=1).map(tally),
    blocks=blocks,
    paused=st.booleans(),
)


@given(anything)
def test_counters_are_sums_and_every_placement_is_there_in_order(given: WorkloadFacts) -> None:
    """On both levels."""
    status = workload_status(given, None, NOW)
    everything = [each for placement in given.placements for each in placement.deployments] + [*given.orphans]
    for counter in Counters.__struct_fields__:
        assert getattr(status, counter) == sum(getattr(each.counters, counter) for each in everything)
    assert [each.name for each in status.placements] == [each.name for each in given.placements]
    for facts, found in zip(given.placements, status.placements, strict=True):
        assert found.ready_replicas == sum(each.counters.ready_replicas for each in facts.deployments)


@given(anything)
def test_available_is_any_and_complete_is_all(given: WorkloadFacts) -> None:
    """And the summary agrees."""
    status = workload_status(given, None, NOW)
    staying = [each for placement in given.placements for each in placement.deployments if not each.deleting]
    serving = any(each.available is not None and each.available.status == "True" for each in staying)
    assert (condition(status, "Available").status == "True") == serving
    if condition(status, "Progressing").reason == reasons.COMPLETE:
        assert staying
        assert all(each.progressing and each.progressing.reason == reasons.COMPLETE for each in staying)
    if columns(status)[2] == "Available":
        assert condition(status, "Progressing").reason == reasons.COMPLETE
        assert serving


@given(anything)
def test_looking_again_changes_nothing(given: WorkloadFacts) -> None:
    """So no write follows."""
    status = workload_status(given, None, NOW)
    assert workload_status(given, status, NOW + 1000) == status
