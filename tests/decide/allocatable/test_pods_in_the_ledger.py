"""The amounts of a pod in its node's ledger, read from the server's object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.accounts import PodEntry
from tarmac.decide.allocatable.podentries import pod_entries


def pod(*, requests: dict[str, str] | None = None, phase: str = "Running", **more: Any) -> dict[str, Any]:
    resources = {"requests": requests, "limits": requests} if requests else {}
    return {
        "metadata": {"name": "p", "namespace": "default", "annotations": more.get("annotations") or {}},
        "spec": {"containers": [{"name": "main", "resources": {**resources, **(more.get("own") or {})}}]},
        "status": {"phase": phase, **(more.get("status") or {})},
    }


def entry(*args: Any, **more: Any) -> PodEntry:
    [found] = pod_entries([pod(*args, **more)])
    return found


def test_ended_pods_count_nothing() -> None:
    assert pod_entries([pod(phase="Succeeded"), pod(phase="Failed")]) == []


def test_requests_and_weight() -> None:
    found = entry(requests={"cpu": "500m", "memory": "1Gi"})
    assert (found.requests, found.weight) == ({"cpu": 500, "memory": 1 << 30}, 512)
    assert entry().weight == 2


def test_processors_to_itself() -> None:
    assert entry(annotations={"node.tarmac/cpus": '{"main":"2-3"}'}).cpus == {"main": CPUSet((2, 3))}


@pytest.mark.parametrize("text", ["", "x", "[]", '{"main":2}', '{"main":"3-2"}', '{"main":"0-99999999"}', "[" * 9999])
def test_an_annotation_that_makes_no_sense_gives_nothing(text: str) -> None:
    found = entry(annotations={"node.tarmac/cpus": text, "node.tarmac/classes": text})
    assert (found.cpus, found.classes) == ({}, {})


def test_classes_in_effect_and_places_taken() -> None:
    statuses = [{"name": "main", "resources": {"classes": {"blockio": ""}}}]
    status = {"containerStatuses": statuses, "resources": {"classes": {"net": "gold"}}}
    found = entry(own={"classes": {"blockio": "slow"}}, status=status)
    assert found.classes == {"": {"net": "gold"}, "main": {"blockio": ""}}
    assert found.places == {("blockio", "slow"): 1}


def test_classes_on_a_server_that_drops_the_fields() -> None:
    told = {"pod": {}, "containers": {"main": {"blockio": "slow"}, "other": {}}}
    asked = {"blockio.resources.alpha.kubernetes.io/default": "slow"}
    found = entry(annotations={"node.tarmac/classes": json.dumps(told), **asked})
    assert found.classes == {"main": {"blockio": "slow"}}
    assert found.places == {("blockio", "slow"): 1}
