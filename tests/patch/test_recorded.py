"""Every result of every scenario equals the response of a real kube-apiserver.

The server's responses also contain additions of its other parts (defaults, addresses, timestamps), so objects must
contain this package's result, and managedFields must be equal to the letter, order and times included.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tests.patch.kinds import RESOURCES
from tests.patch.requests import body_of, managers, outcome
from tests.patch.scenarios import SCENARIOS, Step

RECORDED: dict[str, list[JsonObject]] = json.loads((Path(__file__).parent / "recorded.json").read_text())

# Fields that the server sets after it has recorded the managers of a new object.
SET_LATER = {"Service": {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"}, "Node": {"taints"}}
BY_THE_SERVER = {"uid", "resourceVersion", "generation", "creationTimestamp", "namespace", "managedFields"}


def _steps() -> list[Any]:
    return [
        pytest.param(name, number, id=f"{name}, step {number + 1}: {step.verb} by {step.manager}")
        for name, scenario in SCENARIOS.items()
        for number, step in enumerate(scenario.steps)
    ]


def test_every_scenario_is_recorded() -> None:
    assert {name: len(scenario.steps) for name, scenario in SCENARIOS.items()} == {
        name: len(answers) for name, answers in RECORDED.items()
    }


@pytest.mark.parametrize(("name", "number"), _steps())
def test_step_ends_as_on_the_real_server(name: str, number: int) -> None:
    scenario = SCENARIOS[name]
    resource, step = RESOURCES[scenario.kind], scenario.steps[number]
    recorded = RECORDED[name][number]
    live = _live_before(name, number)
    untouched = copy.deepcopy((live, step.body))
    if recorded["code"] >= 400:
        with pytest.raises(ApiError) as refusal:
            outcome(resource, live, step, "2026-01-01T00:00:00Z")
        _assert_same_refusal(refusal.value, recorded["answer"])
    else:
        _assert_same_object(scenario.kind, live, step, recorded["answer"])
    assert (live, step.body) == untouched


def _live_before(name: str, number: int) -> JsonObject | None:
    answers = [step["answer"] for step in RECORDED[name][:number] if step["code"] < 300]
    return answers[-1] if answers else None


def _assert_same_refusal(refusal: ApiError, status: JsonObject) -> None:
    ours = refusal.status()
    # The real server lists conflicts in the random order of a Go map.
    for answer in (ours, status):
        answer.get("details", {}).get("causes", []).sort(key=lambda cause: (cause["message"], cause["field"]))
    assert ours == status


def _assert_same_object(kind: str, live: JsonObject | None, step: Step, answer: JsonObject) -> None:
    resource = RESOURCES[kind]
    recorded = answer["metadata"].get("managedFields", [])
    now = max((entry["time"] for entry in recorded if "time" in entry), default="2026-01-01T00:00:00Z")
    ours = outcome(resource, live, step, now)
    _assert_contains(_comparable(answer, step), _comparable(ours, step), "")
    if step.verb == "apply":
        entries = ours["metadata"].get("managedFields", [])
    else:
        sent = ours["metadata"].get("managedFields")
        entries = managers(resource, live, _as_recorded(kind, answer, ours, step), sent, step, now)
    assert entries == recorded
    if kind != "Widget":  # custom objects come back with their keys sorted
        assert json.dumps(entries) == json.dumps(recorded)


def _as_recorded(kind: str, answer: JsonObject, ours: JsonObject, step: Step) -> JsonObject:
    """Return the object as it was when the server recorded its managers: decoded and defaulted, no more."""
    if kind == "Widget":
        return ours
    new = copy.deepcopy(answer)
    if step.verb == "create":
        for field in SET_LATER.get(kind, ()):
            new["spec"].pop(field, None)
    if step.subresource == "status":
        new["metadata"]["labels"] = ours["metadata"].get("labels")
    return new


def _comparable(obj: JsonObject, step: Step) -> JsonObject:
    """Return the parts of an object that the request sets."""
    if step.subresource:
        return {"status": obj.get("status")}
    kept = {name: value for name, value in obj.items() if name not in ("status", "metadata")}
    metadata = {name: value for name, value in obj["metadata"].items() if name not in BY_THE_SERVER}
    return {**kept, "metadata": metadata}


def _assert_contains(whole: Any, part: Any, path: str) -> None:
    """Objects may have more fields than `part` says; lists must have the same items in the same order."""
    if isinstance(part, dict):
        for name, value in part.items():
            if value or (name in (whole or {})):
                _assert_contains((whole or {}).get(name), value, f"{path}.{name}")
    elif isinstance(part, list) and part:
        assert isinstance(whole, list), path
        assert len(whole) == len(part), path
        for number, value in enumerate(part):
            _assert_contains(whole[number], value, f"{path}[{number}]")
    elif part:
        assert whole == part, path


def test_nothing_but_defaults_is_added() -> None:
    """Additional parts of the recorded objects must not be parts that we failed to remove."""
    for name, scenario in SCENARIOS.items():
        if scenario.kind not in ("ConfigMap", "ServiceAccount"):
            continue  # kinds without defaults
        for number, step in enumerate(scenario.steps):
            recorded = RECORDED[name][number]
            if recorded["code"] < 300:
                ours = outcome(RESOURCES[scenario.kind], _live_before(name, number), step, "2026-01-01T00:00:00Z")
                _assert_contains(_comparable(ours, step), _comparable(recorded["answer"], step), f"{name} {number}")


def test_bodies_are_complete_objects() -> None:
    body = body_of(RESOURCES["ConfigMap"], Step("apply", "one", {"data": {}}), None)
    assert body == {"apiVersion": "v1", "kind": "ConfigMap", "data": {}, "metadata": {"name": "story"}}
