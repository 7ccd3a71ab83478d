"""A WorkloadDeployment's counters, conditions and summary, computed from its instances."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.compute.workload import WorkloadDeploymentStatus
from tarmac.api.shared import Condition, LocationReference
from tarmac.decide import reasons
from tarmac.decide.instances import InstanceView
from tarmac.decide.reasons import CATALOGUE, Actor, priority
from tarmac.decide.rollup import DeploymentFacts, deployment_status
from tarmac.decide.verdict import Refusal

NOW = 1_800_000_000.0


def facts(*instances: InstanceView, desired: int = 3, **known: Any) -> DeploymentFacts:
    """Return a deployment in Dallas with newest template a."""
    return DeploymentFacts(city="DFW", generation=2, desired=desired, template_hash="a", instances=instances, **known)


def ready(ordinal: int, template: str = "a", **known: Any) -> InstanceView:
    """Return a ready instance."""
    return InstanceView(
        f"web-{ordinal}", ordinal, template, ready=True, programmed=True, observed_hash=template, **known
    )


def waiting(ordinal: int, reason: str = reasons.STARTING, message: str = "", **known: Any) -> InstanceView:
    """Return an instance that is not ready."""
    return InstanceView(f"web-{ordinal}", ordinal, "a", reason=reason, message=message, **known)


def look(
    given: DeploymentFacts, old: WorkloadDeploymentStatus | None = None, now: float = NOW
) -> tuple[WorkloadDeploymentStatus, Condition, Condition]:
    """Return the status, Available and Progressing."""
    status, _ = deployment_status(given, old, now)
    found = {condition.type: condition for condition in status.conditions}
    return status, found["Available"], found["Progressing"]


def words(status: WorkloadDeploymentStatus) -> tuple[str, str, str]:
    """Return the columns READY, STATUS and REASON."""
    assert status.summary is not None
    return status.summary.ready, status.summary.status, status.summary.reason


def test_counters() -> None:
    """All instances exist; deleted ones are not ready, outdated ones are not up to date."""
    making = waiting(3)
    status, _, _ = look(facts(ready(0), ready(1, "old"), ready(2, deleting=True), making, desired=4))
    assert (status.replicas, status.ready_replicas, status.updated_replicas) == (4, 2, 2)
    assert (status.current_replicas, status.desired_replicas) == (1, 4)


def test_stopped_machines_are_counted_and_neither_fail_nor_stall() -> None:
    old = NOW - 100_000
    stopped = waiting(0, reasons.STOPPED, stopped=True, since=old)
    status, available, progress = look(facts(stopped, ready(1), desired=2))
    assert (status.ready_replicas, status.stopped_replicas) == (1, 1)
    assert (available.status, progress.status, progress.reason) == ("True", "True", reasons.COMPLETE)
    assert progress.message == "DFW: 1 of 2 instances are ready, 1 stopped"
    assert words(status) == ("1/2", "Available", "")
    status, available, progress = look(facts(stopped, desired=1))
    assert (available.status, available.reason) == ("False", reasons.STOPPED)
    assert (available.message, progress.reason) == ("DFW: 1 of 1 machines are stopped", reasons.COMPLETE)
    assert words(status) == ("0/1", "Stopped", "")
    _, left = deployment_status(facts(stopped, desired=1), None, NOW)
    assert left is None, "only time has passed"


@pytest.mark.parametrize(
    ("given", "available", "progress", "columns"),
    [
        (
            facts(ready(0), ready(1), ready(2)),
            ("True", reasons.STABLE_INSTANCE_FOUND),
            ("True", reasons.COMPLETE),
            ("3/3", "Available", ""),
        ),
        (
            facts(located=False),
            ("False", reasons.PENDING),
            ("True", reasons.SCALING),
            ("0/3", "Pending", "Scaling"),
        ),
        (
            facts(located=False, blocks=[Refusal(reasons.NO_CANDIDATE_LOCATIONS, "No location is ready.")]),
            ("False", reasons.NO_CANDIDATE_LOCATIONS),
            ("False", reasons.NO_MATCHING_LOCATIONS),
            ("0/3", "Pending", "NoCandidateLocations"),
        ),
        (facts(), ("False", reasons.LOCATION_ASSIGNED), ("True", reasons.SCALING), ("0/3", "Pending", "Scaling")),
        (
            facts(waiting(0, reasons.SCHEDULING_GATES_PRESENT), network_ready=False),
            ("False", reasons.PROVISIONING_NETWORK),
            ("True", reasons.SCALING),
            ("0/3", "Pending", "Scaling"),
        ),
        (
            facts(waiting(0)),
            ("False", reasons.PROVISIONING_INSTANCES),
            ("True", reasons.SCALING),
            ("0/3", "Pending", "Scaling"),
        ),
        (
            facts(ready(0), waiting(1), desired=2),
            ("True", reasons.STABLE_INSTANCE_FOUND),
            ("True", reasons.SCALING),
            ("1/2", "Progressing", "Scaling"),
        ),
        (
            facts(ready(0, "old"), ready(1), desired=2),
            ("True", reasons.STABLE_INSTANCE_FOUND),
            ("True", reasons.NEW_REVISION),
            ("2/2", "Progressing", "NewRevision"),
        ),
        (
            facts(ready(0), ready(1), ready(2), ready(3, deleting=True)),
            ("True", reasons.STABLE_INSTANCE_FOUND),
            ("True", reasons.SCALING),
            ("3/3", "Progressing", "Scaling"),
        ),
        (
            facts(ready(0), waiting(1, reasons.QUOTA_EXHAUSTED, "pods: 7 of 7 used"), desired=2),
            ("True", reasons.STABLE_INSTANCE_FOUND),
            ("False", reasons.QUOTA_EXHAUSTED),
            ("1/2", "Degraded", "QuotaExhausted"),
        ),
        (
            facts(waiting(0, reasons.NODE_UNSCHEDULABLE, "0/3 nodes: 3 cordoned")),
            ("False", reasons.NODE_UNSCHEDULABLE),
            ("False", reasons.NODE_UNSCHEDULABLE),
            ("0/3", "Pending", "NodeUnschedulable"),
        ),
        (
            facts(ready(0), waiting(1, reasons.INSTANCE_CRASHING, "back-off 10s"), desired=2),
            ("True", reasons.STABLE_INSTANCE_FOUND),
            ("False", reasons.STALLED),
            ("1/2", "Degraded", "InstanceCrashing"),
        ),
        (
            facts(ready(0, "old"), ready(1), desired=2, paused=True),
            ("True", reasons.STABLE_INSTANCE_FOUND),
            ("Unknown", reasons.PAUSED),
            ("2/2", "Paused", "Paused"),
        ),
        (
            facts(ready(0, deleting=True), deleting=True),
            ("False", reasons.PROVISIONING_INSTANCES),
            ("True", reasons.SCALING),
            ("0/0", "Deleting", "Scaling"),
        ),
    ],
)
def test_conditions_and_columns(
    given: DeploymentFacts, available: tuple[str, str], progress: tuple[str, str], columns: tuple[str, str, str]
) -> None:
    """One line for each situation."""
    status, serves, moves = look(given)
    assert (serves.status, serves.reason) == available
    assert (moves.status, moves.reason) == progress
    assert words(status) == columns


def test_a_blocked_deployment_names_its_city_how_many_and_the_precise_reason() -> None:
    """In plain words."""
    crashing = [waiting(ordinal, reasons.INSTANCE_CRASHING, "back-off 10s") for ordinal in (1, 2)]
    _, _, progress = look(facts(ready(0), *crashing))
    assert progress.message == "DFW: InstanceCrashing: 2 of 3 instances: back-off 10s"
    quota = waiting(2, reasons.QUOTA_EXHAUSTED, "pods: 2 of 2 used")
    assert look(facts(ready(0), ready(1), quota))[2].message == "DFW: 1 of 3 instances: pods: 2 of 2 used"


def test_a_crashing_outdated_instance_is_reported_as_a_new_revision() -> None:
    """The newest revision replaces it."""
    crashing = InstanceView("web-1", 1, "old", reason=reasons.INSTANCE_CRASHING)
    assert look(facts(ready(0), crashing, desired=2))[2].reason == reasons.NEW_REVISION
    assert words(look(facts(ready(0), crashing, desired=2, paused=True))[0])[2] == reasons.INSTANCE_CRASHING


def test_a_rollout_goes_on_until_its_last_instance_is_ready() -> None:
    """Not only until the last old one is gone."""
    rolling, _, _ = look(facts(ready(0), ready(1, "old"), desired=2, revision="2"))
    status, _, progress = look(facts(ready(0), waiting(1), desired=2, revision="2"), rolling)
    assert progress.reason == reasons.NEW_REVISION
    status, _, progress = look(facts(ready(0), ready(1), desired=2, revision="2"), status)
    assert progress.reason == reasons.COMPLETE
    assert look(facts(ready(0), waiting(1), desired=2, revision="2"), status)[2].reason == reasons.SCALING
    assert look(facts(waiting(0), waiting(1), desired=2, revision="3"), status)[2].reason == reasons.NEW_REVISION


def test_an_instance_that_starts_too_slowly_is_stalled() -> None:
    """Half an hour for an instance; the time of the deadline is known beforehand."""
    slow = facts(ready(0), waiting(1, reasons.STARTING, "Containers are starting.", since=NOW), desired=2)
    status, recheck = deployment_status(slow, None, NOW + 600)
    assert recheck == CATALOGUE[reasons.STARTING].patience - 600
    assert words(status)[1] == "Progressing"
    status, _, progress = look(slow, status, NOW + 1900)
    assert (progress.status, progress.reason) == ("False", reasons.STALLED)
    assert "web-1 has been Starting for 31m" in progress.message
    assert words(status)[1:] == ("Degraded", "Stalled")
    assert deployment_status(facts(ready(0), desired=1), None, NOW)[1] is None


def test_the_schedulers_location_and_others_conditions_stay() -> None:
    """Other controllers write them."""
    other = Condition("AutoscalingReady", "True", "AutoscalerReady", "", None, 1)
    old = WorkloadDeploymentStatus(location=LocationReference("dfw"), conditions=[other])
    status, _, _ = look(facts(ready(0)), old)
    assert status.location == LocationReference("dfw")
    assert other in status.conditions


codes = st.sampled_from(sorted(CATALOGUE))
views = st.builds(
    InstanceView,
    st.uuids().map(str),
    st.integers(-1, 9),
    st.sampled_from(["a", "b"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["a", "b", ""]),
    codes,
    st.just("why"),
    st.sampled_from([0.0, NOW - 60, NOW - 100_000]),
)
anything = st.builds(
    DeploymentFacts,
    city=st.just("DFW"),
    generation=st.integers(1, 9),
    desired=st.integers(1, 6),
    template_hash=st.just("a"),
    revision=st.sampled_from(["1", "2"]),
    instances=st.lists(views, max_size=8),
    blocks=st.lists(codes.map(lambda code: Refusal(code, "because")), max_size=2),
    located=st.booleans(),
    network_ready=st.booleans(),
    paused=st.booleans(),
    deleting=st.booleans(),
)


@given(anything)
def test_counters_are_the_truth(given: DeploymentFacts) -> None:
    """Compared with a plain count."""
    status, _, _ = look(given)
    staying = [view for view in given.instances if not view.deleting]
    newest = [view for view in staying if view.template_hash == "a"]
    assert status.replicas == len(given.instances)
    assert status.ready_replicas == len([view for view in staying if view.ready])
    assert status.updated_replicas == len(newest)
    assert status.current_replicas == len([view for view in newest if view.programmed and view.observed_hash == "a"])
    assert status.desired_replicas == (0 if given.deleting else given.desired)


@given(anything)
def test_conditions_agree_with_counters_and_with_each_other(given: DeploymentFacts) -> None:
    """Available means that an instance serves, Complete that all are as wanted, False that a person has to act."""
    status, available, progress = look(given)
    assert (available.status == "True") == (status.ready_replicas > 0)
    settled = status.replicas == status.desired_replicas == status.ready_replicas == status.updated_replicas
    assert (progress.reason == reasons.COMPLETE) == settled
    assert progress.reason in {
        *(reasons.COMPLETE, reasons.NEW_REVISION, reasons.SCALING, reasons.PAUSED),
        *(reasons.QUOTA_EXHAUSTED, reasons.NO_MATCHING_LOCATIONS, reasons.STALLED, reasons.ROLLOUT_FAILED),
        *(code for code in CATALOGUE if 30 <= reasons.priority(code) < 35),  # number of nodes
    }
    assert (progress.status == "True") == (CATALOGUE[progress.reason].actor in (Actor.NONE, Actor.TRANSIENT))
    _, word, reason = words(status)
    if word == "Available":
        assert (available.status, progress.reason, reason) == ("True", reasons.COMPLETE, "")
    assert (word == "Deleting") == given.deleting


@given(anything)
def test_the_most_actionable_reason_bubbles_up(given: DeploymentFacts) -> None:
    """No permanent reason outranks the shown one, on the condition and in the summary."""
    status, available, _ = look(given)
    relevant = [
        view for view in given.instances if not view.ready and not view.deleting and view.since != NOW - 100_000
    ]
    known = [view.reason for view in relevant if view.template_hash == "a" or given.paused]
    known += [block.reason for block in given.blocks]
    highest = max((priority(code) for code in known), default=0)
    if highest > priority(reasons.PROVISIONING_NETWORK):
        assert priority(words(status)[2]) >= highest
        if available.status == "False":
            assert priority(available.reason) >= highest


@given(anything, anything, st.floats(0, 500))
def test_an_unchanged_world_changes_nothing(given: DeploymentFacts, before: DeploymentFacts, later: float) -> None:
    """A second pass writes nothing, and a time changes exactly when its condition flips."""
    old, _, _ = look(before, None, NOW - 5000)
    status, _, _ = look(given, old)
    times = {condition.type: (condition.status, condition.last_transition_time) for condition in old.conditions}
    for condition in status.conditions:
        was, moment = times[condition.type]
        assert (condition.last_transition_time == moment) == (condition.status == was)
    if all(view.since == 0 for view in given.instances):
        assert look(given, status, NOW + later)[0] == look(given, look(given, status)[0])[0]


def failing(*instances: InstanceView, now: float = NOW, old: WorkloadDeploymentStatus | None = None) -> str:
    """Return the instance that cannot start, if there is one."""
    found = deployment_status(facts(*instances, desired=len(instances), revision="r"), old, now)[0].start_failure
    return found.instance if found is not None else ""


def test_one_exit_is_an_accident_and_two_are_a_start_failure() -> None:
    assert failing(waiting(0, reasons.INSTANCE_CRASHING)) == ""
    assert failing(waiting(0, reasons.INSTANCE_CRASHING, restarts=1)) == "web-0"


def test_a_start_failure_outlasts_the_moments_in_which_a_crashing_instance_is_ready() -> None:
    crashed = facts(waiting(0, reasons.INSTANCE_CRASHING, restarts=1), desired=1, revision="r")
    first, _ = deployment_status(crashed, None, NOW)
    up = facts(ready(0, restarts=2, ready_since=NOW + 10), desired=1, revision="r")
    again, left = deployment_status(up, first, NOW + 12)
    assert first.start_failure is not None
    assert again.start_failure is not None
    assert again.start_failure.since == first.start_failure.since
    assert left == 8.0, "then it counts as started until its next exit"
    assert deployment_status(up, again, NOW + 20)[0].start_failure is None


@pytest.mark.parametrize(("window", "settled"), [(0, 10), (3, 10), (10, 10), (60, 60)])
def test_after_repeated_exits_an_instance_must_be_ready_for_the_observation_window(window: int, settled: int) -> None:
    up = facts(ready(0, restarts=2, ready_since=NOW), desired=1, revision="r", window=window)
    before, left = deployment_status(up, None, NOW + settled - 1)
    assert before.start_failure is not None
    assert left == 1.0
    assert deployment_status(up, before, NOW + settled)[0].start_failure is None


def test_one_exit_is_forgiven_whatever_the_observation_window() -> None:
    up = facts(ready(0, restarts=1, ready_since=NOW), desired=1, revision="r", window=600)
    found, left = deployment_status(up, None, NOW + 1)
    assert (found.start_failure, left) == (None, None)


def test_restarts_of_the_newest_template_are_counted() -> None:
    status, _, _ = look(facts(ready(0, restarts=2), ready(1, "old", restarts=7), ready(2, restarts=1)))
    assert status.restarts == 3
