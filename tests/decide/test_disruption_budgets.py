"""The number of allowed disruptions: counts, shares, recently evicted pods, and evictions that never happened."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.decide.disruption import DELETION_TIMEOUT, SAME_SECOND, PodHealth, failed_status, read_health, status_of

NOW = 1_800_000_000.0


def budget(status: JsonObject | None = None, **spec: Any) -> JsonObject:
    return {"metadata": {"name": "b", "namespace": "x", "generation": 3}, "spec": spec, "status": status or {}}


def pods(ready: int, unready: int = 0, deleting: int = 0) -> list[PodHealth]:
    states = [(True, False)] * ready + [(False, False)] * unready + [(True, True)] * deleting
    return [PodHealth(f"p{number}", *state) for number, state in enumerate(states)]


def numbers(status: JsonObject) -> tuple[int, int, int, int]:
    return tuple(status[name] for name in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("spec", "there", "scales", "expected"),
    [
        ({"minAvailable": 2}, pods(3), {}, (3, 2, 3, 1)),
        ({"minAvailable": 2}, pods(1, unready=2), {}, (3, 2, 1, 0)),
        ({"minAvailable": 0}, pods(2, unready=1), {}, (3, 0, 2, 2)),
        ({"minAvailable": 0}, [], {}, (0, 0, 0, 0)),
        ({"minAvailable": 5}, pods(3), {}, (3, 5, 3, 0)),
        ({"minAvailable": "50%"}, pods(3), {"a": 3}, (3, 2, 3, 1)),
        ({"minAvailable": "100%"}, pods(3), {"a": 3}, (3, 3, 3, 0)),
        ({"minAvailable": "0%"}, pods(3), {"a": 3}, (3, 0, 3, 3)),
        ({"maxUnavailable": 1}, pods(3), {"a": 3}, (3, 2, 3, 1)),
        ({"maxUnavailable": 1}, pods(3), {"a": 2, "b": 2}, (4, 3, 3, 0)),
        ({"maxUnavailable": 9}, pods(3), {"a": 3}, (3, 0, 3, 3)),
        ({"maxUnavailable": "30%"}, pods(7), {"a": 7}, (7, 4, 7, 3)),
        ({"maxUnavailable": 0}, pods(3), {"a": 3}, (3, 3, 3, 0)),
        ({"maxUnavailable": 1}, pods(3), {}, (0, 0, 3, 0)),
        ({"minAvailable": 1}, pods(1, deleting=2), {}, (3, 1, 1, 0)),
        ({}, pods(3), {}, (0, 0, 3, 0)),
    ],
)
def test_allowed_disruptions_are_healthy_pods_beyond_the_minimum(
    spec: JsonObject, there: list[PodHealth], scales: dict[str, int], expected: tuple[int, int, int, int]
) -> None:
    status = status_of(budget(**spec), there, scales, NOW).status
    assert numbers(status) == expected
    (condition,) = status["conditions"]
    assert (condition["type"], condition["observedGeneration"]) == ("DisruptionAllowed", 3)
    reason = ("True", "SufficientPods") if expected[3] else ("False", "InsufficientPods")
    assert (condition["status"], condition["reason"]) == reason
    assert status["observedGeneration"] == 3


def test_an_evicted_pod_counts_as_gone_until_its_deletion_shows() -> None:
    stamp = rfc3339(NOW - 10)
    noted = {"disruptedPods": {"p0": stamp, "p2": stamp, "vanished": stamp}}
    there = [*pods(2), PodHealth("p2", ready=True, deleting=True)]
    census = status_of(budget(noted, minAvailable=1), there, {}, NOW)
    assert census.status["disruptedPods"] == {"p0": stamp}
    assert numbers(census.status) == (3, 1, 1, 0)
    assert census.recheck == NOW - 10 + DELETION_TIMEOUT
    assert not census.overdue


def test_an_eviction_that_no_deletion_follows_is_taken_back_after_two_minutes() -> None:
    noted = {"disruptedPods": {"p0": rfc3339(NOW - DELETION_TIMEOUT)}}
    census = status_of(budget(noted, minAvailable=1), pods(2), {}, NOW)
    assert "disruptedPods" not in census.status
    assert numbers(census.status) == (2, 1, 2, 1)
    assert (census.overdue, census.recheck) == (("p0",), None)


def test_a_note_is_not_about_the_next_pod_of_the_name() -> None:
    noted = {"disruptedPods": {"p": rfc3339(NOW)}}

    def healthy(created: float, later: float) -> int:
        pod = PodHealth("p", ready=True, created=rfc3339(created))
        census = status_of(budget(noted, minAvailable=0), [pod], {}, NOW + later)
        assert not census.overdue
        return census.status["currentHealthy"]

    assert healthy(created=NOW - 1, later=60) == 0  # the evicted pod
    assert healthy(created=NOW + 1, later=1) == 1  # its replacement
    assert healthy(created=NOW, later=1) == 0  # either: not before it is certain
    assert healthy(created=NOW, later=SAME_SECOND) == 1


def test_a_condition_keeps_its_time_until_it_flips_and_others_stay() -> None:
    other = {"type": "Other", "status": "True", "lastTransitionTime": rfc3339(1)}
    before = status_of(budget({"conditions": [other]}, minAvailable=1), pods(2), {}, NOW).status
    assert [each["type"] for each in before["conditions"]] == ["Other", "DisruptionAllowed"]
    same = status_of(budget(before, minAvailable=1), pods(3), {}, NOW + 9).status
    assert same["conditions"] == before["conditions"]
    flipped = status_of(budget(same, minAvailable=1), pods(1), {}, NOW + 9).status
    assert flipped["conditions"][-1]["lastTransitionTime"] == rfc3339(NOW + 9)


def test_a_failed_count_allows_no_disruption_and_keeps_the_numbers() -> None:
    before = status_of(budget(minAvailable=1), pods(3), {}, NOW).status
    after = failed_status(budget({**before, "observedGeneration": 2}, minAvailable=1), "who knows", NOW)
    assert numbers(after) == (3, 1, 3, 0)
    (condition,) = after["conditions"]
    assert (condition["reason"], condition["message"]) == ("SyncFailed", "who knows")
    assert (after["observedGeneration"], condition["observedGeneration"]) == (2, 2)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (b'{"metadata":{"name":"a"}}', PodHealth("a", False)),
        (b'{"metadata":{"name":"a"},"status":{"conditions":null}}', PodHealth("a", False)),
        (b'{"metadata":{"name":"a"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}', PodHealth("a", True)),
        (
            b'{"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{}}',
            PodHealth("a", False, True),
        ),
    ],
)
def test_a_pod_is_healthy_when_it_says_that_it_is_ready(pod: bytes, expected: PodHealth) -> None:
    assert read_health(pod) == expected
