"""Nodes with GPUs: kept for pods that need them, packed, and explained by the pods that hold them."""

from __future__ import annotations

from typing import Any

from .world import World, node, pod

GPU = "datumcloud.com/nvidia-h200"


def gpus(name: str, number: int = 4, **more: Any) -> dict[str, Any]:
    """Return a node with GPUs, larger than the others."""
    return node(name, cpu="64", memory="256Gi", devices={GPU: str(number)}, **more)


def test_a_pod_without_gpus_prefers_a_node_without_although_it_is_smaller() -> None:
    assert World(gpus("gpu"), node("cpu")).choose(pod("p", {"cpu": "100m"})).value == "cpu"


def test_a_pod_without_gpus_runs_beside_gpus_where_there_is_no_other_place() -> None:
    assert World(gpus("gpu"), node("cpu", cpu="1")).choose(pod("p", {"cpu": "2"})).value == "gpu"


def test_pods_with_gpus_are_packed() -> None:
    world = World(gpus("a"), gpus("b"))
    first = world.run(pod("first", {GPU: "1", "cpu": "8"})) or ""
    assert world.choose(pod("second", {GPU: "1", "cpu": "8"})).value == first
    other = {"a": "b", "b": "a"}[first]
    assert world.choose(pod("large", {GPU: "4"})).value == other


def test_a_refusal_names_the_holders_of_the_own_namespace_and_what_to_delete() -> None:
    world = World(gpus("n", 1))
    world.run(pod("trainer", {GPU: "1"}))
    _, kind = world.choose(pod("late", {GPU: "1"})).refusals
    assert kind.message == f"Needs 1 {GPU}; n has 0 free, held by trainer."
    assert kind.change == f"Free 1 {GPU} on n (delete trainer)."


def test_holders_of_other_namespaces_are_counted_and_not_named() -> None:
    world = World(gpus("n", 1))
    stranger = pod("secret", {GPU: "1"})
    stranger["metadata"]["namespace"] = "other"
    world.run(stranger)
    _, kind = world.choose(pod("late", {GPU: "1"})).refusals
    assert kind.message == f"Needs 1 {GPU}; n has 0 free, held by 1 pod of other namespaces."
    assert "secret" not in f"{kind.message} {kind.change}"


def test_unhealthy_gpus_are_told_beside_the_holders() -> None:
    listed = {"node.tarmac/devices": f'{{"resources":["{GPU}"],"handlers":["runc",""]}}'}
    world = World(gpus("n", 1, annotations=listed, capacity={GPU: "3"}))
    world.run(pod("trainer", {GPU: "1"}))
    _, kind = world.choose(pod("late", {GPU: "1"})).refusals
    assert kind.message == f"Needs 1 {GPU}; n has 0 free, 2 unhealthy, held by trainer."
