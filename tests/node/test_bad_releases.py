"""A release that becomes Ready and exits a moment later stays in one city of real nodes, and is taken back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tarmac.api.compute.names import LABEL_CITY_CODE
from tests.node.planet import Json, Planet, eventually

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

CITIES = ["DFW", "LHR"]
SERVES = "exec httpd -f -p 8000"
EXITS = "httpd -p 8000; sleep 2; exit 1"
TAKEN_BACK = 90.0  # seconds: 30 of repeated exits, and the time to start the old release


def workload(script: str) -> Json:
    container: Json = {"name": "main", "image": "registry.local/tarmac/busybox:1", "command": ["sh", "-c", script]}
    resources = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "100m", "memory": "128Mi"}}
    runtime: Json = {"resources": resources, "sandbox": {"containers": [container]}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "released"},
        "spec": {
            "template": {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}},
            "placements": [{"name": "all", "cityCodes": CITIES, "scaleSettings": {"minReplicas": 1}}],
        },
    }


@pytest.fixture
def released(planet: Planet) -> Iterator[Planet]:
    try:
        planet.apply(workload(SERVES))
        planet.wait("workload/released", "condition=Ready", 60)
        yield planet
    finally:
        planet.kubectl.run("delete", "workload", "released", "--ignore-not-found", "--wait", timeout=60)


def scripts(planet: Planet) -> dict[str, str]:
    """What the instances of each city run."""
    found = planet.get("instances", "-l", "compute.datumapis.com/workload-name=released")["items"]
    return {
        each["metadata"]["labels"][LABEL_CITY_CODE]: each["spec"]["runtime"]["sandbox"]["containers"][0]["command"][2]
        for each in found
    }


def test_a_release_that_exits_after_two_seconds_never_leaves_its_first_city(released: Planet) -> None:
    released.apply(workload(EXITS))
    eventually(lambda: EXITS in scripts(released).values(), 30, "the first wave")
    [first] = [city for city, script in scripts(released).items() if script == EXITS]
    began = time.monotonic()
    while EXITS in scripts(released).values():
        running = [city for city, script in scripts(released).items() if script == EXITS]
        assert running in ([first], []), "it has left the first city"
        assert time.monotonic() - began < TAKEN_BACK, released.kubectl.run("get", "workload,instances", "-o", "wide")
        time.sleep(0.5)
    released.wait("workload/released", "jsonpath={.status.readyReplicas}=2", 60)
    failure = json.loads(released.kubectl("get", "workload", "released", "-o", "json"))["status"]["rollout"]["failure"]
    assert (failure["city"], failure["reason"]) == (first, "InstanceCrashing")
