"""Admission of a pod to its classes on a node, with the message that the pod gets."""

from __future__ import annotations

from typing import Any

from tarmac.api.kubernetes.core.nodeclasses import OfferedClasses, OfferedType
from tarmac.decide.qosclasses.admission import ClassesOfNode, postponement, refusal, taken_by
from tarmac.decide.qosclasses.counting import Places

OFFERED = OfferedClasses(
    pod={"net": OfferedType(False, {"gold": 1})},
    container={
        "blockio": OfferedType(False, {"slow": 4, "fast": None}),
        "rdt": OfferedType(True, {"cache": None, "none": None}),
    },
)


def pod(*containers: dict[str, str], pod: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a pod with containers c0, c1, … in classes."""
    named = [{"name": f"c{index}", "resources": {"classes": each}} for index, each in enumerate(containers)]
    return {
        "metadata": {},
        "spec": {"containers": named, "resources": {"classes": pod or {}}},
    }


def here(taken: Places | None = None, *, own_kernel: bool = False, lenient: bool = False) -> ClassesOfNode:
    return ClassesOfNode("n1", OFFERED, taken or {}, own_kernel, lenient)


def test_pods_are_admitted_to_offered_and_free_classes() -> None:
    asks = pod({"blockio": "slow", "rdt": "cache"}, {"blockio": "fast"}, pod={"net": "gold"})
    assert refusal(asks, here()) is None


def test_a_class_that_is_not_offered() -> None:
    message = "class blockio/medium is not offered on n1; it offers fast, slow"
    assert refusal(pod({"blockio": "medium"}), here()) == ("ClassUnavailable", message)


def test_a_type_that_is_not_offered() -> None:
    message = "class disk/x is not offered on n1; it offers no class of type disk"
    assert refusal(pod({"disk": "x"}), here()) == ("ClassUnavailable", message)


def test_a_container_cannot_have_a_class_of_whole_pods() -> None:
    message = "class net/gold is offered on n1 for whole pods only"
    assert refusal(pod({"net": "gold"}), here()) == ("ClassUnavailable", message)
    assert postponement(pod({"net": "gold"}), pod({}), here()) == ("Infeasible", message)
    assert refusal(pod({"net": "gold"}), here(lenient=True)) is None


def test_a_class_that_is_full() -> None:
    others = [pod({"blockio": "slow"}, {"blockio": "slow"}), pod({}, pod={"blockio": "slow"})]
    taken = taken_by(others, OFFERED.pod)
    assert taken == {("blockio", "slow"): 3}
    assert refusal(pod({"blockio": "slow"}), here(taken=taken)) is None
    message = "class blockio/slow on n1 is full: asked 2, used 3, capacity 4"
    assert refusal(pod({"blockio": "slow"}, {"blockio": "slow"}), here(taken=taken)) == ("ClassExhausted", message)


def test_a_place_of_a_pod_is_taken_once() -> None:
    taken = taken_by([pod({}, {}, pod={"net": "gold"})], OFFERED.pod)
    assert taken == {("net", "gold"): 1}
    assert refusal(pod({}, pod={"net": "gold"}), here(taken=taken)) == (
        "ClassExhausted",
        "class net/gold on n1 is full: asked 1, used 1, capacity 1",
    )


def test_in_one_cgroup_there_is_room_for_one_class_of_a_type() -> None:
    asks = pod({"blockio": "slow"}, {"blockio": "fast"})
    assert refusal(asks, here()) is None
    message = "containers of a pod with its own kernel are in one class of type blockio, not in fast and slow"
    assert refusal(asks, here(own_kernel=True)) == ("ClassUnavailable", message)
    assert refusal(pod({"blockio": "slow"}, {}), here(own_kernel=True)) is None


def test_a_lenient_node_does_without_what_is_not_offered() -> None:
    assert refusal(pod({"disk": "x"}), here(lenient=True)) is None


def test_other_classes_while_a_pod_runs() -> None:
    before = pod({"blockio": "fast", "rdt": "cache"})
    taken = {("blockio", "slow"): 4}
    assert postponement(before, before, here(taken=taken)) is None
    change = pod({"blockio": "slow", "rdt": "cache"})
    assert postponement(change, before, here()) is None
    assert postponement(change, before, here(taken=taken)) == (
        "Deferred",
        "class blockio/slow on n1 is full: asked 1, used 4, capacity 4",
    )
    assert postponement(pod({"blockio": "x", "rdt": "cache"}), before, here()) == (
        "Infeasible",
        "class blockio/x is not offered on n1; it offers fast, slow",
    )
    assert postponement(pod({"blockio": "fast", "rdt": "none"}), before, here()) == (
        "Infeasible",
        "classes of type rdt cannot be changed on n1 while a container runs",
    )
    assert postponement(pod({"blockio": "fast"}), before, here()) is not None, "removing a class is a change too"


def test_a_class_that_has_vanished_does_not_stand_in_the_way_of_other_changes() -> None:
    before = pod({"blockio": "gone"}, {"blockio": "fast"})
    after = pod({"blockio": "gone"}, {"blockio": "slow"})
    assert postponement(after, before, here()) is None
