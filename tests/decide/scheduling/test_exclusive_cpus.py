"""Exclusive processors: requests never exceed the number that a node can assign."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.decide.scheduling.world import World, node, pod


def static(name: str, own: str, cpu: str = "32") -> dict[str, Any]:
    """Return a node with the static policy. It may lend reserved processors, so its cpu may exceed `own`."""
    made = node(name, cpu=cpu, memory="64Gi", pods="100")
    made["status"]["capacity"] = {"cpu": cpu, "cpu exclusive": own}
    return made


def guaranteed(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    made = pod(name, {"cpu": cpu, "memory": "1Gi"}, **spec)
    made["spec"]["containers"][0]["resources"]["limits"] = {"cpu": cpu, "memory": "1Gi"}
    return made


def test_whole_processors_of_guaranteed_pods_are_counted_and_those_of_others_are_not() -> None:
    world = World(static("n", own="3"))
    assert world.run(guaranteed("two", "2")) == "n"
    told = world.choose(guaranteed("more", "2")).refusals
    assert told[0].message == "0/1 nodes: 1 Insufficient cpu exclusive."
    assert told[0].change == "Ask for at most 1 exclusive CPU, or free 1 exclusive CPU on n."
    assert told[1].message == "Needs 2 exclusive CPUs; n has 1 free."
    assert (told[0].reason, told[1].rule) == ("InsufficientCapacity", "resources")
    assert world.run(guaranteed("odd", "1500m")) == "n"
    assert world.run(pod("burstable", {"cpu": "4"})) == "n"
    assert world.run(guaranteed("last", "1")) == "n"
    assert world.choose(guaranteed("late", "1")).value is None


def test_a_node_that_gives_none_away_takes_everybody() -> None:
    world = World(node("n", cpu="32"), static("reserved", own="0"))
    assert world.choose(guaranteed("p", "4")).value == "n"


def test_init_containers_leave_theirs_to_those_after_them() -> None:
    world = World(static("n", own="4"))
    amounts = {"cpu": "4", "memory": "1Gi"}
    first = {"name": "first", "resources": {"requests": amounts, "limits": amounts}}
    assert world.run(guaranteed("p", "3", initContainers=[first])) == "n"
    assert world.choose(guaranteed("q", "1")).value is None


def test_a_policy_that_changes_under_pods_counts_those_that_are_there() -> None:
    from tarmac.decide.scheduling import node_of

    world = World(node("n", cpu="32", memory="64Gi"))
    world.run(guaranteed("p", "3"))
    world.cluster.set_node(node_of(static("n", own="4")))
    assert world.choose(guaranteed("q", "2")).value is None
    assert world.choose(guaranteed("q", "1")).value == "n"
    world.cluster.set_node(node_of(node("n", cpu="32", memory="64Gi")))
    assert world.choose(guaranteed("q", "2")).value == "n"


@given(st.lists(st.sampled_from(["500m", "1", "2", "3"]), max_size=30), st.integers(0, 6))
def test_no_node_is_ever_asked_for_more_than_it_gives_away(sizes: list[str], own: int) -> None:
    world = World(static("a", str(own), "40"), static("b", "2", "40"))
    given_away = {"a": own, "b": 2}
    taken = {"a": 0, "b": 0}
    for number, size in enumerate(sizes):
        wanted = 0 if size == "500m" else int(size)
        chosen = world.run(guaranteed(f"p{number}", size))
        if chosen is None:
            assert all(taken[name] + wanted > most for name, most in given_away.items())
        else:
            taken[chosen] += wanted
            assert taken[chosen] <= given_away[chosen]
