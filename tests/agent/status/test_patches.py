"""Status patches contain only changes, and no fields of other writers."""

from __future__ import annotations

from tarmac.agent.status.writer import difference


def test_equal_statuses_need_nothing() -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert difference(status, {**status}) == {}


def test_only_what_changed_is_sent() -> None:
    before = {"phase": "Pending", "qosClass": "BestEffort", "reason": "Old", "podIPs": [{"ip": "1"}], "strange": 1}
    after = {"phase": "Running", "qosClass": "BestEffort", "podIPs": [{"ip": "2"}]}
    assert difference(before, after) == {
        "phase": "Running",
        "podIPs": [{"$patch": "replace"}, {"ip": "2"}],
        "reason": None,
    }


def test_conditions_are_told_one_by_one() -> None:
    before = [
        {"type": "Ready", "status": "False", "reason": "X", "message": "why", "lastProbeTime": None},
        {"type": "Initialized", "status": "True"},
        {"type": "PodResizePending", "status": "True"},
        {"type": "example.com/gate", "status": "True"},
    ]
    after = [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]
    assert difference({"conditions": before}, {"conditions": after}) == {
        "conditions": [
            {"type": "Ready", "status": "True", "reason": None, "message": None},
            {"$patch": "delete", "type": "PodResizePending"},
        ]
    }
