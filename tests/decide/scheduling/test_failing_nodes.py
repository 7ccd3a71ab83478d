"""A node that makes a filter or scorer raise loses its pods to other nodes, and only that."""

from __future__ import annotations

import pytest

from tarmac.decide.scheduling import Cluster, Pod, Scheduler
from tarmac.decide.scheduling.filters import Check
from tarmac.decide.scheduling.filters.rule import Brief, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers import Score

from .world import World, node, pod


class Failing:
    """A filter that raises for node a."""

    rule = "failing"
    picky = True

    def prepare(self, pod: Pod, cluster: Cluster) -> Check:
        def check(info: NodeInfo) -> str | None:
            if info.node.name == "a":
                raise OverflowError("int too large to convert to float")
            return None

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        return Brief("failing", 0)

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        return Why("failing", "failing")


class FailingScorer:
    """A scorer that raises for node a."""

    picky = True

    def prepare(self, pod: Pod, cluster: Cluster) -> Score:
        def score(info: NodeInfo) -> float:
            if info.node.name == "a":
                raise OverflowError("int too large to convert to float")
            return 0

        return score


@pytest.mark.parametrize("selector", [{}, {"group": "x"}], ids=["any node", "chosen nodes"])
@pytest.mark.parametrize("part", ["filter", "scorer"])
def test_a_failing_node_is_left_out(part: str, selector: dict[str, str]) -> None:
    world = World(*(node(name, labels={"group": "x"}) for name in "abc"))
    failures: list[str] = []
    world.scheduler = Scheduler(
        world.cluster,
        filters=[Failing()] if part == "filter" else [],
        scorers=[FailingScorer()] if part == "scorer" else [],
        on_failure=lambda name, error: failures.append(f"{name}: {type(error).__name__}"),
    )
    chosen = {world.choose(pod(f"p{number}", nodeSelector=selector)).value for number in range(6)}
    assert chosen
    assert chosen <= {"b", "c"}
    assert set(failures) == {"a: OverflowError"}


@pytest.mark.parametrize("amount", ["1e400", "-1e400", "1e1000"])
def test_amounts_are_limited_to_64_bits(amount: str) -> None:
    world = World(node("a"), node("b"))
    world.run(pod("big", {"cpu": amount, "memory": amount}), on="a")
    assert abs(world.cluster.nodes["a"].free["cpu"]) < 2**64
    assert world.choose(pod("plain")).value is not None
