"""Victims of a more important pod: enough of them, no more, and the least important ones."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.selectors import LabelMatcher
from tarmac.decide.scheduling import Cluster, Demands, Guard, Pod, PreemptionCandidate, Scheduler, node_of, reservation
from tarmac.decide.scheduling.preemption import ENOUGH, MAX_MOVED

from .world import HOSTNAME, node, pod, required

WEB = {"app": "web"}


class Scene:
    """Nodes with pods on them."""

    def __init__(self, **nodes: str) -> None:
        self.cluster, self._demands = Cluster(), Demands()
        self.scheduler = Scheduler(self.cluster)
        self.starts: dict[str, str] = {}
        for name, cpu in nodes.items():
            self.cluster.set_node(node_of(node(name, cpu=cpu)))

    def read(self, name: str, cpu: str, priority: int, **more: Any) -> Pod:
        return self._demands.pod(pod(name, {"cpu": cpu}, priority=priority, **more))

    def put(self, where: str, name: str, cpu: str, priority: int, start: str = "2026-01-01", **more: Any) -> None:
        self.starts[name] = start
        self.cluster.add_pod(self.read(name, cpu, priority, **more), where)

    def choose(self, wanted: Pod, *guards: Guard) -> PreemptionCandidate | None:
        before = {name: (dict(info.free), set(info.pods)) for name, info in self.cluster.nodes.items()}
        found = self.scheduler.preempt(wanted, guards, lambda each: self.starts.get(each.name, ""))
        assert before == {name: (dict(info.free), set(info.pods)) for name, info in self.cluster.nodes.items()}
        return found

    def victims(self, cpu: str, priority: int, *guards: Guard) -> tuple[str, list[str]] | None:
        found = self.choose(self.read("wanted", cpu, priority), *guards)
        return None if found is None else (found.node, [each.name for each in found.victims])


def guard(allowed: int, *noted: str) -> Guard:
    return Guard("default", LabelMatcher.from_object({"matchLabels": WEB}), allowed, frozenset(noted))


def test_only_pods_of_lower_priority_go() -> None:
    scene = Scene(a="4")
    scene.put("a", "equal", "4", 10)
    assert scene.victims("1", 10) is None
    assert scene.victims("1", 11) == ("a", ["equal"])
    assert scene.victims("8", 11) is None, "the pod exceeds an empty node"


def test_the_most_important_stay_and_no_more_go_than_have_to() -> None:
    scene = Scene(a="4")
    scene.put("a", "low", "1", 1)
    scene.put("a", "high", "1", 5)
    scene.put("a", "middle", "2", 3)
    assert scene.victims("1", 9) == ("a", ["low"])
    assert scene.victims("2", 9) == ("a", ["middle"]), "without it, the least important one can stay"
    assert scene.victims("3", 9) == ("a", ["middle", "low"])


def test_nobody_is_taken_off_a_node_that_could_never_take_the_pod() -> None:
    """Otherwise the budget of moves is used up before the feasible node."""
    scene = Scene()
    for number in range(30):
        taint = [{"key": "dedicated", "effect": "NoSchedule"}]
        scene.cluster.set_node(node_of(node(f"n{number:02}", cpu="1000", pods="1000", taints=taint)))
        for each in range(MAX_MOVED // 20):
            scene.put(f"n{number:02}", f"other-{number}-{each}", "1", 1)
    scene.cluster.set_node(node_of(node("open", cpu="1")))
    scene.put("open", "low", "1", 1)
    assert scene.victims("1", 9) == ("open", ["low"])


def test_of_equals_the_one_that_has_run_longest_stays() -> None:
    scene = Scene(a="2")
    scene.put("a", "new", "1", 1, start="2026-02-02")
    scene.put("a", "old", "1", 1, start="2026-01-01")
    scene.put("a", "newest", "0", 1, start="")
    assert scene.victims("1", 9) == ("a", ["new"])


def test_a_node_is_chosen_by_budgets_then_by_whom_it_would_cost() -> None:
    scene = Scene(a="2", b="2")
    scene.put("a", "protected", "2", 1, labels=WEB)
    scene.put("b", "important", "2", 5)
    assert scene.victims("2", 9, guard(0)) == ("b", ["important"])
    assert scene.victims("2", 9, guard(1)) == ("a", ["protected"])
    assert scene.victims("2", 9, guard(0, "protected")) == ("a", ["protected"]), "it is being evicted already"


def test_a_budget_is_broken_rather_than_a_pod_left_waiting() -> None:
    scene = Scene(a="2")
    scene.put("a", "protected", "2", 1, labels=WEB)
    found = scene.choose(scene.read("wanted", "2", 9), guard(0))
    assert found is not None
    assert found.violations == 1


def test_a_node_that_breaks_no_budget_is_found_behind_many_that_do() -> None:
    scene = Scene(**{f"n{number:02}": "1" for number in range(ENOUGH + 8)})
    for number in range(ENOUGH + 7):
        scene.put(f"n{number:02}", f"p{number}", "1", 1, labels=WEB)
    scene.put(f"n{ENOUGH + 7}", "free", "1", 5)
    assert scene.victims("1", 9, guard(0)) == (f"n{ENOUGH + 7}", ["free"])


def test_the_search_ends_after_a_number_of_pods_though_every_node_breaks_a_budget() -> None:
    scene = Scene(**{f"n{number}": "8" for number in range(400)})
    for number in range(3200):
        scene.put(f"n{number // 8}", f"p{number}", "1", 1, labels=WEB)
    asked = list[Pod]()

    def started(pod: Pod) -> str:
        asked.append(pod)
        return "2026-01-01"

    found = [scene.scheduler.preempt(scene.read("w", "2", 9), [guard(0)], started, turn) for turn in range(2)]
    assert len(asked) == 2 * MAX_MOVED
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].node != found[1].node, "the next turn starts elsewhere"


def test_no_budget_protects_a_pod_without_labels() -> None:
    scene = Scene(a="1", b="1")
    scene.put("a", "bare", "1", 1)
    scene.put("b", "labelled", "1", 0, labels=WEB)
    selector = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    over_both = Guard("default", LabelMatcher.from_object(selector), 0)
    assert scene.victims("1", 9, over_both) == ("a", ["bare"])


def test_those_whose_budget_would_be_broken_come_back_first() -> None:
    scene = Scene(a="2")
    scene.put("a", "free", "1", 5)
    scene.put("a", "protected", "1", 1, labels=WEB)
    assert scene.victims("1", 9) == ("a", ["protected"])
    assert scene.victims("1", 9, guard(0)) == ("a", ["free"])


def test_sum_number_and_start_decide_among_nodes() -> None:
    scene = Scene(a="2", b="2", c="2")
    scene.put("a", "a1", "1", 3)
    scene.put("a", "a2", "1", 3)
    scene.put("b", "b1", "2", 3, start="2026-01-01")
    scene.put("c", "c1", "2", 3, start="2026-03-03")
    assert scene.victims("2", 9) == ("c", ["c1"])


def test_a_pod_to_be_apart_from_goes_and_a_wrong_label_is_no_matter_of_victims() -> None:
    scene = Scene(a="4", b="4")
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": WEB}}
    scene.put("a", "near", "1", 1, labels=WEB)
    scene.put("b", "near-too", "1", 20, labels=WEB)
    wanted = scene.read("wanted", "1", 9, affinity=required("podAntiAffinity", term))
    found = scene.choose(wanted)
    assert found is not None
    assert (found.node, [each.name for each in found.victims]) == ("a", ["near"])
    assert scene.choose(scene.read("picky", "4", 9, nodeSelector={"disk": "ssd"})) is None


def test_a_reservation_holds_for_equals_and_yields_to_the_more_important_without_a_victim() -> None:
    scene = Scene(a="2")
    scene.cluster.add_pod(reservation(scene.read("first", "2", 5)), "a")
    assert scene.scheduler.choose(scene.read("second", "1", 5)).value is None
    assert scene.victims("1", 5) is None
    assert scene.victims("1", 6) == ("a", [])


pods = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(0, 4), st.integers(0, 4), st.booleans(), st.sampled_from(["1", "2", "3"])
    ),
    max_size=14,
)


@given(pods, st.integers(1, 5), st.integers(0, 5), st.integers(0, 2))
def test_victims_suffice_are_all_needed_and_matter_less(
    present: list[tuple[str, int, int, bool, str]], cpu: int, priority: int, allowed: int
) -> None:
    scene = Scene(a="4", b="5", c="6")
    for number, (where, size, rank, protected, start) in enumerate(present):
        scene.put(where, f"p{number}", str(size), rank, start=start, labels=WEB if protected else {})
    wanted = scene.read("wanted", str(cpu), priority)
    found = scene.choose(wanted, guard(allowed))
    lower = {
        name: [each for each in info.pods.values() if each.priority < priority]
        for name, info in scene.cluster.nodes.items()
    }
    if found is None:
        for name, there in lower.items():  # removing all would not help, or there are none
            for each in there:
                scene.cluster.remove_pod(each.uid)
            assert not there or not scene.scheduler.takes(wanted, name)
        return
    assert all(each.priority < priority for each in found.victims)
    for each in found.victims:
        scene.cluster.remove_pod(each.uid)
    assert scene.scheduler.takes(wanted, found.node), "the victims suffice"
    for each in found.victims:
        scene.cluster.add_pod(each, found.node)
        assert not scene.scheduler.takes(wanted, found.node), "each victim is needed"
        scene.cluster.remove_pod(each.uid)
