"""Taints by condition, rates of giving up nodes of a place, and the time that a pod stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.decide import reasons
from tarmac.decide.health import place_health
from tarmac.decide.nodes import (
    NOT_READY,
    OWN_KEYS,
    UNREACHABLE,
    Disruption,
    TaintToleration,
    disruption,
    key_that_drives_away,
    keys_that_bar,
    pause,
    stays,
)

COUNTS = st.integers(0, 200)
SECONDS = st.one_of(st.none(), st.floats(-10, 1000))
KEYS = st.sampled_from(["", NOT_READY, UNREACHABLE, "example.com/a"])
TOLERANCES = st.builds(
    TaintToleration,
    key=KEYS,
    exists=st.booleans(),
    value=st.sampled_from(["", "x"]),
    effect=st.sampled_from(["", "NoExecute", "NoSchedule"]),
    seconds=SECONDS,
)
TAINTS = st.lists(st.tuples(st.sampled_from([NOT_READY, UNREACHABLE, "example.com/a"]), st.sampled_from(["", "x"])))


@pytest.mark.parametrize(
    ("conditions", "cordoned", "keys"),
    [
        ({"Ready": "True"}, False, set()),
        ({"Ready": "False"}, False, {NOT_READY}),
        ({"Ready": "Unknown"}, True, {UNREACHABLE, "node.kubernetes.io/unschedulable"}),
        ({"Ready": "True", "DiskPressure": "True"}, False, {"node.kubernetes.io/disk-pressure"}),
        ({"Ready": "True", "MemoryPressure": "Unknown"}, False, set()),
    ],
)
def test_conditions_bar_new_pods(conditions: dict[str, str], cordoned: bool, keys: set[str]) -> None:
    assert keys_that_bar(conditions, cordoned) == keys
    assert keys <= OWN_KEYS


def test_only_a_node_that_is_not_ready_drives_pods_away() -> None:
    assert [key_that_drives_away(state) for state in ("True", "False", "Unknown")] == [None, NOT_READY, UNREACHABLE]


@given(COUNTS, COUNTS, COUNTS)
def test_a_place_is_cut_off_only_when_every_node_is_silent(ready: int, not_ready: int, silent: int) -> None:
    state = disruption(ready, not_ready, silent)
    assert (state is Disruption.CUT_OFF) == (silent > 0 and ready == not_ready == 0)
    if state is Disruption.CUT_OFF:
        assert pause(state, silent) is None


@given(COUNTS, COUNTS, COUNTS)
def test_more_trouble_never_makes_giving_up_faster(ready: int, not_ready: int, silent: int) -> None:
    def speed(healthy: int, troubled: int) -> float:
        seconds = pause(disruption(healthy, not_ready, troubled), healthy + not_ready + troubled)
        return 0 if seconds is None else 1 / seconds

    if ready:
        assert speed(ready - 1, silent + 1) <= speed(ready, silent)


@given(COUNTS, COUNTS, COUNTS)
def test_the_health_of_a_place_says_whether_it_takes_instances(ready: int, not_ready: int, silent: int) -> None:
    health = place_health(ready, not_ready, silent)
    assert (health.status == "True") == (ready > 0)
    assert (health.status == "Unknown") == (disruption(ready, not_ready, silent) is Disruption.CUT_OFF)
    assert health.reason in reasons.CATALOGUE


@pytest.mark.parametrize(
    ("tolerances", "taints", "seconds"),
    [
        ([], [(UNREACHABLE, "")], 0),
        ([TaintToleration(UNREACHABLE, True, "", "NoExecute", 300)], [(UNREACHABLE, "")], 300),
        ([TaintToleration(UNREACHABLE, True, "", "NoExecute")], [(UNREACHABLE, "")], None),
        ([TaintToleration("", True, "", "")], [(UNREACHABLE, ""), ("example.com/a", "x")], None),
        ([TaintToleration(UNREACHABLE, True, "", "NoSchedule", 300)], [(UNREACHABLE, "")], 0),
        ([TaintToleration("example.com/a", False, "x", "")], [("example.com/a", "y")], 0),
        (
            [TaintToleration(UNREACHABLE, True, "", "", 300), TaintToleration("", True, "", "", 60)],
            [(UNREACHABLE, "")],
            60,
        ),
        ([TaintToleration(UNREACHABLE, True, "", "", -5)], [(UNREACHABLE, "")], 0),
    ],
)
def test_a_pod_stays_as_long_as_its_tolerations_say(
    tolerances: list[TaintToleration], taints: list[tuple[str, str]], seconds: float | None
) -> None:
    assert stays(tolerances, taints) == seconds


@given(st.lists(TOLERANCES), TAINTS, st.tuples(st.sampled_from([NOT_READY, UNREACHABLE]), st.just("")))
def test_another_taint_never_lets_a_pod_stay_longer(
    tolerances: list[TaintToleration], taints: list[tuple[str, str]], more: tuple[str, str]
) -> None:
    before, after = stays(tolerances, taints), stays(tolerances, [*taints, more])
    assert after is None or after >= 0
    if before is not None:
        assert after is not None
        assert after <= before


def test_without_a_taint_everybody_stays() -> None:
    assert stays([], []) is None
