"""Classes of shared resources: only nodes that offer them with a free place take a pod; refusals name a remedy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.kubernetes.core.nodeclasses import RESOURCES_ANNOTATION
from tarmac.decide.scheduling import Cluster, Demands, Scheduler, node_of, room_at
from tarmac.decide.scheduling.preemption import best, candidates
from tests.decide.scheduling.world import World, node, pod

Json = dict[str, Any]
BLOCKIO = "blockio.resources.alpha.kubernetes.io"
FOUR: dict[str, int | None] = {"slow": 2, "normal": None, "fast": None, "idle": None}


def types(**offered: dict[str, int | None]) -> list[Json]:
    return [
        {
            "name": kind,
            "classes": [{"name": each} | ({"capacity": most} if most else {}) for each, most in known.items()],
        }
        for kind, known in offered.items()
    ]


def offering(name: str, pods: dict[str, dict[str, int | None]] | None = None, **offered: dict[str, int | None]) -> Json:
    """Return a node with classes for containers, and for pods."""
    made = node(name, pods="1000", cpu="1000", memory="1000Gi")
    made["status"] |= {"containerClassResources": types(**offered), "podClassResources": types(**(pods or {}))}
    return made


def asking(
    name: str, *containers: Json, whole: Json | None = None, annotations: Json | None = None, **spec: Any
) -> Json:
    """Return a pod with containers that request these classes by field."""
    made = pod(name, **spec)
    made["metadata"]["annotations"] = annotations or {}
    made["spec"]["containers"] = [
        {"name": f"c{index}", "image": "app", "resources": {"classes": classes}}
        for index, classes in enumerate(containers or ({},))
    ]
    if whole:
        made["spec"]["resources"] = {"classes": whole}
    return made


def test_a_class_leads_to_a_node_that_offers_it() -> None:
    world = World(node("plain"), offering("other", rdt={"gold": None}), offering("right", blockio=FOUR))
    assert world.choose(asking("p", {"blockio": "slow"})).value == "right"


@pytest.mark.parametrize(
    "asks",
    [
        asking("field", {"blockio": "fast"}),
        asking("annotation", {}, annotations={f"{BLOCKIO}/container.c0": "fast"}),
        asking("default", {}, annotations={f"{BLOCKIO}/default": "fast"}),
        asking("pod", {}, whole={"blockio": "fast"}),
    ],
    ids=lambda asks: asks["metadata"]["name"],
)
def test_every_way_to_ask_counts(asks: Json) -> None:
    world = World(offering("no", blockio={"slow": None}), offering("yes", blockio={"fast": None}))
    assert world.choose(asks).value == "yes"


def test_pods_that_differ_in_annotations_alone_are_told_apart() -> None:
    world = World(offering("a", blockio={"slow": None}), offering("b", blockio={"fast": None}))
    chosen = [
        world.choose(asking("p", {}, annotations={f"{BLOCKIO}/default": name})).value for name in ("slow", "fast")
    ]
    assert chosen == ["a", "b"]
    named = [
        world.choose(asking("p", {}, {}, annotations={f"{BLOCKIO}/container.{name}": "slow"})) for name in ("c0", "c9")
    ]
    assert [each.value for each in named] != [None, None]


def test_a_node_says_its_classes_in_an_annotation_where_the_server_drops_the_fields() -> None:
    there = node("n")
    published = {"containerClassResources": types(blockio={"slow": 1})}
    there["metadata"]["annotations"] = {RESOURCES_ANNOTATION: msgspec.json.encode(published).decode()}
    world = World(there)
    assert world.run(asking("first", {"blockio": "slow"})) == "n"
    assert world.choose(asking("second", {"blockio": "slow"})).refusals[0].reason == "ClassExhausted"


def test_a_class_that_nobody_offers_is_told_with_what_there_is_instead() -> None:
    world = World(offering("a", blockio=FOUR), offering("b", blockio=FOUR))
    told = world.choose(asking("p", {"blockio": "gold"})).refusals[0]
    assert (told.reason, told.message) == ("ClassUnavailable", "0/2 nodes: 2 no class blockio/gold.")
    assert told.change == "Ask for one of fast, idle, normal, slow, or offer blockio/gold on a."
    assert World(node("a")).choose(asking("p", {"blockio": "gold"})).refusals[0].change == "Offer blockio/gold on a."


def test_the_places_of_a_class_are_counted_by_container_and_the_next_is_told_how_many_to_free() -> None:
    world = World(offering("n", blockio=FOUR))
    world.run(asking("one", {"blockio": "slow"}, {"blockio": "fast"}))
    told = world.choose(asking("two", {"blockio": "slow"}, {"blockio": "slow"})).refusals
    assert told[0].message == "0/1 nodes: 1 class blockio/slow full."
    assert told[0].change == "Free 1 place of class blockio/slow on n."
    assert told[1].message == "Class blockio/slow on n is full: asked 2, used 1, capacity 2."
    assert told[1].rule == "classes"
    world.cluster.remove_pod("one")
    assert world.choose(asking("two", {"blockio": "slow"}, {"blockio": "slow"})).value == "n"


def test_init_containers_take_their_places_one_after_the_other() -> None:
    world = World(offering("n", blockio=FOUR))
    steps = [{"name": f"i{number}", "resources": {"classes": {"blockio": "slow"}}} for number in range(5)]
    assert world.run(asking("p", {"blockio": "slow"}, initContainers=steps)) == "n"
    assert world.cluster.nodes["n"].places == {("blockio", "slow"): 1}


def test_a_type_for_pods_is_taken_once_and_not_by_a_container() -> None:
    world = World(offering("n", pods={"net": {"gold": 1}}))
    assert world.choose(asking("p", {"net": "gold"})).refusals[0].reason == "ClassUnavailable"
    assert world.run(asking("p", {}, {}, whole={"net": "gold"})) == "n"
    assert world.choose(asking("q", {}, {}, whole={"net": "gold"})).refusals[0].reason == "ClassExhausted"


def test_one_kernel_has_one_class_of_a_type() -> None:
    world = World(offering("n", blockio=FOUR))
    torn = asking("p", {"blockio": "slow"}, {"blockio": "fast"})
    assert world.choose(torn, handler="runc").value == "n"
    told = world.choose(torn, handler="gvisor").refusals[0]
    assert told.reason == "ClassUnavailable"
    assert told.change == "Ask for one class of blockio in all containers, or for the RuntimeClass runc."


def test_with_the_gate_off_nobody_asks_for_a_class() -> None:
    cluster = Cluster()
    cluster.set_node(node_of(node("n")))
    read = Demands(classes=False).pod(asking("p", {"blockio": "slow"}))
    assert Scheduler(cluster).choose(read).value == "n"


def test_a_node_may_change_its_classes_under_running_pods() -> None:
    world = World(offering("n", blockio=FOUR))
    world.run(asking("p", {"blockio": "slow"}))
    world.cluster.set_node(node_of(offering("n", blockio={"slow": 1})))
    assert world.choose(asking("q", {"blockio": "slow"})).refusals[0].reason == "ClassExhausted"
    world.cluster.set_node(node_of(offering("n", blockio={"slow": None})))
    assert world.choose(asking("q", {"blockio": "slow"})).value == "n"


def test_room_at_a_location_counts_places_and_processors_of_ones_own() -> None:
    there = offering("n", blockio=FOUR)
    there["metadata"]["labels"]["topology.datum.net/location"] = "dfw"
    there["status"]["capacity"] = {"cpu exclusive": "7"}
    world = World(there)
    slow = world.read(asking("p", {"blockio": "slow"})).demand.classes
    none = world.read(asking("p", {"blockio": "none"})).demand.classes
    assert room_at(world.cluster, "dfw", {"cpu": 1000}) == 1000
    assert room_at(world.cluster, "dfw", {"cpu": 1000}, slow) == 2
    assert room_at(world.cluster, "dfw", {"cpu": 1000}, none) == 0
    assert room_at(world.cluster, "dfw", {"cpu": 2000, "cpu exclusive": 2}) == 3


def test_a_less_important_pod_ends_for_its_place() -> None:
    world = World(offering("other", blockio={"fast": None}), offering("n", blockio={"slow": 1}))
    for name, on in (("low", "n"), ("bystander", "n"), ("elsewhere", "other")):
        classes = {"blockio": "slow"} if name == "low" else {}
        world.run(asking(name, classes), on=on)
    high = world.read(asking("high", {"blockio": "slow"}, priority=10))
    filters = (*_filters(),)
    found = best(candidates(high, world.cluster, filters, (), lambda _pod: ""))
    assert found is not None
    assert (found.node, [each.name for each in found.victims]) == ("n", ["low"])
    nowhere = world.read(asking("high", {"blockio": "gold"}, priority=10))
    assert best(candidates(nowhere, world.cluster, filters, (), lambda _pod: "")) is None


def _filters() -> tuple[Any, ...]:
    from tarmac.decide.scheduling.filters import LABELS, NODE_FILTERS, POOL_FILTERS

    return (*POOL_FILTERS, LABELS, *NODE_FILTERS)


def test_nodes_without_a_free_place_are_not_even_looked_at() -> None:
    """Nine nodes in ten are full: the tenth is offered in every turn."""
    world = World(*[offering(f"n{number:03}", blockio=FOUR) for number in range(200)])
    for number in range(180):
        world.run(asking(f"full-{number}", {"blockio": "slow"}, {"blockio": "slow"}), on=f"n{number:03}")
    looked: list[str] = []
    plan = world.scheduler._plan(world.read(asking("p", {"blockio": "slow"})))  # pyright: ignore[reportPrivateUsage]
    plan.checks = (lambda info: looked.append(info.node.name), *plan.checks)
    for _ in range(10):
        world.choose(asking("p", {"blockio": "slow"}))
    assert looked
    assert min(looked) >= "n180"
    assert len(looked) <= 10 * 8


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["slow", "fast", "idle"])), max_size=40), st.integers(1, 4)
)
def test_no_class_ever_has_more_than_its_places_and_nobody_waits_beside_a_free_one(
    pods: list[tuple[int, str]], most: int
) -> None:
    offer: dict[str, int | None] = {"slow": most, "fast": 1, "idle": None}
    world = World(*[offering(f"n{number}", blockio=offer) for number in range(3)])
    for number, (count, name) in enumerate(pods):
        chosen = world.run(asking(f"p{number}", *[{"blockio": name}] * count))
        for info in world.cluster.nodes.values():
            taken, capacity = info.places.get(("blockio", name), 0), offer[name]
            assert capacity is None or taken <= capacity
            assert chosen is not None or (capacity is not None and taken + count > capacity)
