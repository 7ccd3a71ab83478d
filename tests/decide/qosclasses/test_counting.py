"""The places of a class that a pod takes: one for a pod, one for each container, the peak over init steps."""

from __future__ import annotations

import pytest

from tarmac.decide.qosclasses.counting import Places, places
from tests.qosclasses.planet import BLOCKIO, Json, container, pod

SLOW, FAST = ("blockio", "slow"), ("blockio", "fast")


def slow(name: str, **more: str) -> Json:
    return {**container(name, classes={"blockio": "slow"}), **more}


def sidecar(name: str) -> Json:
    return slow(name, restartPolicy="Always")


@pytest.mark.parametrize(
    ("init", "running", "taken"),
    [
        ([], [container("a")], {}),
        ([], [slow("a"), slow("b"), container("c")], {SLOW: 2}),
        ([slow("i"), slow("j")], [container("a")], {SLOW: 1}),
        ([slow("i")], [slow("a"), slow("b")], {SLOW: 2}),
        ([sidecar("s")], [slow("a")], {SLOW: 2}),
        ([sidecar("s"), slow("i")], [container("a")], {SLOW: 2}),
        ([slow("i"), sidecar("s")], [container("a")], {SLOW: 1}),
        ([sidecar("s"), sidecar("t"), slow("i")], [slow("a")], {SLOW: 3}),
        ([slow("i")], [container("a", classes={"blockio": "fast"})], {SLOW: 1, FAST: 1}),
    ],
)
def test_the_peak_over_everything_that_runs_side_by_side(init: list[Json], running: list[Json], taken: Places) -> None:
    assert places(pod("p", *running, initContainers=init)) == taken


def test_a_default_is_taken_by_every_container() -> None:
    asked = pod("p", container("a"), container("b"), annotations={f"{BLOCKIO}/default": "slow"})
    assert places(asked) == {SLOW: 2}


def test_a_class_of_pods_is_taken_once() -> None:
    asked = pod("p", container("a"), container("b"), resources={"classes": {"blockio": "slow"}})
    assert places(asked, {"blockio"}) == {SLOW: 1}
    assert places(asked) == {SLOW: 2}


def test_containers_that_look_alike_are_counted_each() -> None:
    same = slow("a")
    assert places(pod("p", same, same)) == {SLOW: 2}


def test_ephemeral_containers_take_none() -> None:
    asked = pod("p", container("a"), annotations={f"{BLOCKIO}/default": "slow"}, ephemeralContainers=[container("d")])
    assert places(asked) == {SLOW: 1}
