"""`why node/NAME`: the failing condition, since when, in the node's words, and the remedy."""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.explanations import Explanation
from tarmac.base.clock import rfc3339
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.snapshot.snapshot import NODES
from tests.decide.explain.world import NOW, Scene


def explained(*conditions: dict[str, Any]) -> Explanation:
    scene = Scene()
    scene.place("LHR", nodes=0)
    scene.node("lhr-0", "lhr")
    node = NODES.get(scene.world, "lhr-0")
    assert node is not None
    scene.put(NODES.resource, node | {"status": node["status"] | {"conditions": list(conditions)}})
    found = EXPLAINERS[NODES.resource](scene.world, "lhr-0")
    assert found is not None
    return found


def condition(kind: str, status: str, seconds: float = 0, **own: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": rfc3339(NOW - seconds), **own}


def test_a_healthy_node_has_no_line() -> None:
    found = explained(condition("Ready", "True"), condition("DiskPressure", "False"), condition("Odd", "False"))
    assert (found.sentence, found.verdicts) == ("Node lhr-0 is ready, with 0 pods on it.", [])


def test_a_silent_node_names_the_time_and_the_ways_out() -> None:
    found = explained(condition("Ready", "Unknown", 1800, reason="NodeStatusUnknown", message="No report."))
    assert found.sentence == (
        "Node lhr-0 is not ready, with 0 pods on it: Ready is Unknown for 30m: NodeStatusUnknown: No report."
    )
    assert found.change == "Start lhr-0 or its agent; if the host is lost: tarmac node remove lhr-0."


def test_a_node_that_reports_a_cause_is_quoted() -> None:
    found = explained(condition("Ready", "False", 30, reason="KubeletNotReady", message="runtime is down"))
    assert [each.reason for each in found.verdicts] == ["NodeNotReady"]
    assert found.verdicts[0].message == "Ready is False for 30s: KubeletNotReady: runtime is down."


def test_other_conditions_have_a_line_below_that_of_ready() -> None:
    found = explained(
        condition("DiskPressure", "True", 60, message="the disk is full"), condition("Ready", "Unknown", 60)
    )
    assert [(each.rule, each.reason) for each in found.verdicts] == [
        ("diskpressure", "NodeCondition"),
        ("ready", "NodeNotReady"),
    ]
    assert "Ready is Unknown" in found.sentence


def test_the_words_of_a_hostile_node_are_cut() -> None:
    found = explained(condition("Ready", "False", message="x" * 100_000), {"type": "Ready", "status": "False"})
    assert all(len(each.message) < 400 for each in found.verdicts)
