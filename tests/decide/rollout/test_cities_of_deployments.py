"""The state of a city in the waves of a rollout, read from the status of its WorkloadDeployment."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.base.clock import rfc3339
from tarmac.decide.rollout.city import ObservedSeconds, WaveCity, city_of

NOW = 1_000_000.0
A_MINUTE_AGO = rfc3339(NOW - 60)
READY = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": A_MINUTE_AGO}
CRASHED = {"instance": "web-ams-0", "reason": "CrashLoopBackOff", "message": "exit 1", "since": A_MINUTE_AGO}


def view(status: dict[str, Any] | None = None, seen: ObservedSeconds | None = None, **metadata: Any) -> WaveCity:
    """Return the state of a ready deployment of generation 2 that has observed it, with these changes."""
    template = {
        "spec": {"runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}}, "networkInterfaces": []}
    }
    document = {
        "metadata": {"name": "web-ams", "namespace": "default", "generation": 2} | metadata,
        "spec": {"placementName": "all", "cityCode": "AMS", "workloadRef": {"name": "web", "uid": "u"},
                 "template": template, "scaleSettings": {"minReplicas": 1}, "replicas": 1},
        "status": {"observedGeneration": 2, "revision": "r2", "conditions": [READY]} | (status or {}),
    }  # fmt: skip
    deployment = msgspec.convert(document, WorkloadDeployment)
    return city_of("web-ams", "AMS", deployment, NOW, lost=False, **({} if seen is None else {"seen": seen}))


def test_a_ready_deployment_is_complete_since_its_condition() -> None:
    assert (view().complete, view().stable) == (True, 60)


@pytest.mark.parametrize(
    ("status", "metadata"),
    [
        ({"conditions": []}, {}),
        ({"startFailure": CRASHED}, {}),
        ({"observedGeneration": 1}, {}),
        ({}, {"deletionTimestamp": A_MINUTE_AGO}),
    ],
    ids=["not ready", "crash-looping, and Ready between restarts", "older specification observed", "being deleted"],
)
def test_a_deployment_is_not_complete(status: dict[str, Any], metadata: dict[str, Any]) -> None:
    assert (view(status, **metadata).complete, view(status, **metadata).stable) == (False, 0)


def test_a_deployment_with_restarts_of_its_newest_template_has_restarted() -> None:
    assert (view().restarted, view({"restarts": 1}).restarted) == (False, True)


def test_seconds_observed_replace_the_timestamps_of_other_clocks() -> None:
    seen = view({"startFailure": CRASHED}, ObservedSeconds(still=5, failing=7, stable=3))
    assert (seen.still, seen.failing, seen.complete) == (0, 7, False)
    assert view(seen=ObservedSeconds(stable=3)).stable == 3
