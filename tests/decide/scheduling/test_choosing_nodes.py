"""Selection among several feasible nodes, its cost, and updates of the cluster."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.decide.scheduling import Cluster, Demands, NodeInfo, Pod, Scheduler, free_at, node_of, room_at
from tarmac.decide.scheduling.filters import Brief, Check, Why
from tarmac.decide.scheduling.scheduler import SAMPLE

from .world import HOSTNAME, LOCATION, Json, World, node, pod, required, spread

GROUP = {"compute.datumapis.com/workload-deployment-name": "web"}


class Counting:
    """A rule that accepts everything and counts its calls."""

    rule = "counting"

    def __init__(self) -> None:
        self.asked = 0

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Return a check that counts its calls."""

        def check(info: NodeInfo) -> str | None:
            self.asked += 1
            return None

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Unused: it never refuses."""
        raise AssertionError

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Unused: it never refuses."""
        raise AssertionError


def counted(nodes: list[Json]) -> tuple[World, Counting]:
    """Return a world with a scheduler that counts examined nodes."""
    world, counting = World(*nodes), Counting()
    world.scheduler = Scheduler(world.cluster, filters=[counting])
    return world, counting


@pytest.mark.parametrize("size", [100, 1000])
@pytest.mark.parametrize("filled", [False, True])
def test_the_nodes_looked_at_do_not_grow_with_the_cluster(size: int, filled: bool) -> None:
    """A handful, even when all nodes but ten are full."""
    world, counting = counted([node(f"n{i}") for i in range(size)])
    if filled:
        for i in range(size - 10):
            world.run(pod(f"big{i}", {"cpu": "4"}), on=f"n{i}")
    counting.asked = 0
    for i in range(5):
        assert world.run(pod(f"p{i}", {"cpu": "1"})) is not None
    assert counting.asked <= 5 * SAMPLE


def test_nodes_that_can_never_take_a_pod_are_not_looked_at() -> None:
    """Another Location, a taint, a label: one check per kind of node, when the template is first seen."""
    others = [node(f"sea{i}", labels={LOCATION: "sea"}) for i in range(200)]
    tainted = [
        node(f"t{i}", labels={LOCATION: "dfw"}, taints=[{"key": "x", "effect": "NoSchedule"}]) for i in range(200)
    ]
    hdd = [node(f"h{i}", labels={LOCATION: "dfw", "disk": "hdd"}) for i in range(200)]
    world, counting = counted([*others, *tainted, *hdd, node("good", labels={LOCATION: "dfw", "disk": "ssd"})])
    for i in range(3):
        assert world.choose(pod(f"p{i}", nodeSelector={LOCATION: "dfw", "disk": "ssd"})).value == "good"
    assert counting.asked == 3


def test_a_named_node_is_found_directly() -> None:
    """By hostname label or by name, among many."""
    world, counting = counted([node(f"n{i}") for i in range(500)])
    assert world.choose(pod("p", nodeSelector={HOSTNAME: "n321"})).value == "n321"
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
    assert world.choose(pod("q", affinity=required("nodeAffinity", field))).value == "n7"
    assert counting.asked == 2


def test_a_label_with_a_value_for_each_node_still_works() -> None:
    """Such labels are compared node by node instead of making a pool for each."""
    world = World(*(node(f"n{i}", labels={"rack": f"r{i}", "serial": str(i)}) for i in range(100)))
    assert world.choose(pod("p", nodeSelector={"rack": "r42"})).value == "n42"
    assert len(world.cluster.pools) == 1


def test_no_is_worked_out_once_until_something_makes_room() -> None:
    """A thousand waiting pods of one template cost as much as one."""
    world, counting = counted([node(f"n{i}", cpu="1") for i in range(50)])
    refused = world.choose(pod("a", {"cpu": "2"}))
    asked = counting.asked
    assert world.choose(pod("b", {"cpu": "2"})) is refused
    assert counting.asked == asked
    world.cluster.set_node(node_of(node("large", cpu="8")))
    assert world.choose(pod("c", {"cpu": "2"})).value == "large"


def test_pods_are_spread_evenly() -> None:
    """Over equal nodes, exactly."""
    world = World(*(node(f"n{i}", pods="100") for i in range(20)))
    chosen = Counter(world.run(pod(f"p{i}", {"cpu": "100m", "memory": "64Mi"}, GROUP)) for i in range(200))
    assert set(chosen.values()) == {10}


def test_pods_of_one_deployment_keep_apart() -> None:
    """A little more load on a node is better than two of the same kind on one."""
    world = World(node("a"), node("b"))
    world.run(pod("other", {"cpu": "500m", "memory": "1Gi"}), on="b")
    assert {world.run(pod("p0", {"cpu": "100m"}, GROUP)), world.run(pod("p1", {"cpu": "100m"}, GROUP))} == {"a", "b"}


def test_cities_without_a_choice_are_used_in_turn() -> None:
    """A pod without a Location may go to any."""
    world = World(*(node(f"{city}{i}", labels={LOCATION: city}) for city in ("dfw", "sea", "lhr") for i in range(3)))
    chosen = Counter(str(world.run(pod(f"p{i}", {"cpu": "100m"}, GROUP)))[:3] for i in range(9))
    assert chosen == {"dfw": 3, "sea": 3, "lhr": 3}


def test_preferences() -> None:
    """Preferred labels, affinity, distance and images decide between nodes that are equally empty."""
    prefer = "preferredDuringSchedulingIgnoredDuringExecution"
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    world = World(*(node(f"n{i}") for i in range(60)), node("ssd", labels={"disk": "ssd"}))
    liked = {"nodeAffinity": {prefer: [{"weight": 10, "preference": ssd}]}}
    assert world.choose(pod("p", affinity=liked)).value == "ssd"

    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
    world = World(node("a"), node("b"), node("c"))
    world.run(pod("db", None, {"app": "db"}), on="b")
    near = {"podAffinity": {prefer: [{"weight": 1, "podAffinityTerm": term}]}}
    assert world.choose(pod("p", affinity=near)).value == "b"
    away = {"podAntiAffinity": {prefer: [{"weight": 1, "podAffinityTerm": term}]}}
    assert all(world.choose(pod(f"q{i}", affinity=away)).value != "b" for i in range(6))

    world = World(
        node("a", labels={"zone": "x"}), node("b", labels={"zone": "x"}), node("c", labels={"zone": "y"}, cpu="3")
    )
    world.run(pod("w", {"cpu": "100m"}, {"app": "web"}), on="a")
    even = spread("zone", hard=False, app="web")
    assert world.choose(pod("p", {"cpu": "100m"}, {"app": "web"}, topologySpreadConstraints=even)).value == "c"

    busy = [{"key": "busy", "effect": "PreferNoSchedule"}]
    world = World(node("big", cpu="64", taints=busy), node("small"))
    assert world.choose(pod("p")).value == "small"

    cached = node("b")
    cached["status"]["images"] = [{"names": ["docker.io/library/app:1"], "sizeBytes": 1 << 30}]
    assert World(node("a"), cached, node("c")).choose(pod("p")).value == "b"


def test_a_failed_binding_is_taken_back() -> None:
    """Assume, forget, assume elsewhere."""
    world = World(node("a", cpu="1"))
    first = pod("p", {"cpu": "1"})
    world.run(first, on="a")
    assert world.choose(pod("q", {"cpu": "1"})).value is None
    world.cluster.remove_pod("p")
    assert world.choose(pod("q", {"cpu": "1"})).value == "a"
    world.cluster.remove_pod("p")
    world.cluster.add_pod(world.read(first), "elsewhere")
    assert world.cluster.node_of("p") == "elsewhere"
    world.cluster.add_pod(world.read(first), "a")
    assert world.choose(pod("q", {"cpu": "1"})).value is None


def test_a_pod_that_changes_where_it_is_is_counted_anew() -> None:
    """Its size and its labels both affect other pods."""
    world = World(node("a", cpu="4"))
    world.run(pod("p", {"cpu": "1"}, {"app": "web"}), on="a")
    world.run(pod("p", {"cpu": "3"}, {"app": "db"}), on="a")
    assert world.choose(pod("q", {"cpu": "2"})).value is None
    assert world.cluster.nodes["a"].free["cpu"] == 1000
    apart = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    assert world.choose(pod("r", affinity=required("podAntiAffinity", apart))).value == "a"


def test_capacity_of_a_location_counts_nodes_for_ordinary_pods() -> None:
    """Nodes that take no ordinary pods do not count."""
    taint = [{"key": "x", "effect": "NoSchedule"}]
    dfw = {LOCATION: "dfw"}
    world = World(
        node("a", labels=dfw),
        node("b", labels=dfw, pods="2"),
        node("c", labels=dfw, taints=taint),
        node("d", labels=dfw, unschedulable=True),
        node("e", labels={LOCATION: "sea"}),
    )
    world.run(pod("p", {"cpu": "1"}), on="a")
    assert free_at(world.cluster, "dfw") == {"cpu": 7000, "memory": 16 << 30, "pods": 11}
    assert room_at(world.cluster, "dfw", {"cpu": 1000}) == 3 + 2
    assert room_at(world.cluster, "nrt", {"cpu": 1000}) == 0


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 4)), max_size=6), st.integers(1, 1500))
def test_room_is_exactly_how_many_pods_fit(sizes: list[tuple[int, int]], cpu: int) -> None:
    """Compared with placing them."""
    dfw = {LOCATION: "dfw"}
    world = World(*(node(f"n{i}", f"{milli}m", pods=str(pods), labels=dfw) for i, (milli, pods) in enumerate(sizes)))
    room = room_at(world.cluster, "dfw", {"cpu": cpu})
    placed = [world.run(pod(f"p{i}", {"cpu": f"{cpu}m"}, nodeSelector=dfw)) for i in range(room + 1)]
    assert None not in placed[:room]
    assert placed[room] is None


def test_the_smallest_change_is_for_the_nearest_node() -> None:
    """The node that the fewest rules refuse, then the one with the smallest shortage."""
    taint = [{"key": "x", "effect": "NoSchedule"}]
    world = World(
        node("a", cpu="1"), node("b", cpu="3500m"), node("c", cpu="3900m", taints=taint), node("d", taints=taint)
    )
    head, *kinds = world.choose(pod("p", {"cpu": "4"})).refusals
    assert head.message == "0/4 nodes: 2 Insufficient cpu, 2 untolerated taint x:NoSchedule."
    assert head.change == "Ask for at most 3.5 CPUs, or free 0.5 CPUs on b."
    assert [(kind.where, kind.rule) for kind in kinds] == [("2 nodes", "resources"), ("2 nodes", "taints")]


amounts = st.integers(1, 4000)


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=8), amounts, amounts)
def test_the_smallest_change_makes_it_a_yes(sizes: list[tuple[int, int]], cpu: int, memory: int) -> None:
    """With at most the named amount."""
    world = World(*(node(f"n{i}", f"{c}m", f"{m}Mi") for i, (c, m) in enumerate(sizes)))
    verdict = world.choose(pod("p", {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}))
    assert (verdict.value is None) == all(c < cpu or m < memory for c, m in sizes)
    if verdict.value is None:
        asked = verdict.refusals[0].change.removeprefix("Ask for at most ").split(",")[0].split(" and ")
        less = {"memory" if "memory" in part else "cpu": part.split()[0] for part in asked}
        assert world.choose(pod("q", {"cpu": f"{cpu}m", "memory": f"{memory}Mi", **less})).value is not None


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_the_same_cluster_pod_and_turn_give_the_same_node(turn: int, other: int) -> None:
    """No other input counts: two schedulers agree, whatever they decided before."""
    objects = [node(f"n{i}", cpu=str(1 + i % 3)) for i in range(30)]
    first, second = World(*objects), World(*objects)
    wanted = Demands().pod(pod("p", {"cpu": "1"}))
    second.scheduler.choose(wanted, other)
    assert first.scheduler.choose(wanted, turn) == second.scheduler.choose(wanted, turn)
