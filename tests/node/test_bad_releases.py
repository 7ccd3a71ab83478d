"""A release with instances that exit stays in one of three cities of real nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tarmac.api.compute.names import LABEL_CITY_CODE
from tests.node.planet import Json, Planet, down, eventually
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

CITIES = ["DFW", "LHR", "SEA"]
SERVES = "exec httpd -f -p 8000"
EXITS = "httpd -p 8000; sleep 2; exit 1"
EXITS_ONCE = "if mkdir /once/exited; then httpd -p 8000; sleep 2; exit 1; fi; exec httpd -f -p 8000"
OBSERVED = 30.0  # seconds: three times the window of a release without a restart
TAKEN_BACK = 90.0  # seconds: 30 of repeated exits, and the time to start the old release


def workload(script: str) -> Json:
    container: Json = {"name": "main", "image": "registry.local/tarmac/busybox:1", "command": ["sh", "-c", script]}
    container["volumeAttachments"] = [{"name": "once", "mountPath": "/once"}]
    resources = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "100m", "memory": "128Mi"}}
    runtime: Json = {"resources": resources, "sandbox": {"containers": [container]}}
    spec: Json = {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}
    spec["volumes"] = [{"name": "once", "memory": {}}]  # outlives a restart of the container
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "released"},
        "spec": {
            "template": {"spec": spec},
            "placements": [{"name": "all", "cityCodes": CITIES, "scaleSettings": {"minReplicas": 1}}],
        },
    }


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planet]:
    """Three cities: the second wave would reach two of them at once."""
    directory = tmp_path_factory.mktemp("releases") / "data"
    try:
        flags = ("--runtime", "containerd", "--cities", ",".join(CITIES))
        with TarmacProcess(directory, *flags, command="up") as process:
            yield Planet(process, directory.parent)
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"


@pytest.fixture
def released(planet: Planet) -> Iterator[Planet]:
    try:
        planet.apply(workload(SERVES))
        planet.wait("workload/released", "condition=Ready", 60)
        yield planet
    finally:
        planet.kubectl.run("delete", "workload", "released", "--ignore-not-found", "--wait", timeout=60)


def scripts(planet: Planet) -> dict[str, str]:
    """Return the command of the instances of each city."""
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
    released.wait("workload/released", "jsonpath={.status.readyReplicas}=3", 60)
    failure = json.loads(released.kubectl("get", "workload", "released", "-o", "json"))["status"]["rollout"]["failure"]
    assert (failure["city"], failure["reason"]) == (first, "InstanceCrashing")


def test_a_release_that_exits_once_is_observed_in_its_first_city_for_longer(released: Planet) -> None:
    released.apply(workload(EXITS_ONCE))
    eventually(lambda: restarts(released) == 1, 60, "the exit")
    [first] = [city for city, script in scripts(released).items() if script == EXITS_ONCE]
    released.wait("workload/released", "jsonpath={.status.readyReplicas}=3", 30)
    ends = time.monotonic() + OBSERVED
    while time.monotonic() < ends:
        assert [city for city, script in scripts(released).items() if script == EXITS_ONCE] == [first]
        time.sleep(0.5)
    assert restarts(released) == 1, "it has been running since"
    rollout = released.get("workload", "released")["status"]["rollout"]
    assert (rollout["updatedCities"], rollout.get("failure")) == (1, None)
    assert f"{first} for 5m, since an instance has restarted" in released.tarmac("why", "workload/released")


def restarts(planet: Planet) -> int:
    """Return the restarts of instances of the release."""
    found = planet.get("workloaddeployments", "-l", "compute.datumapis.com/workload-name=released")["items"]
    return sum(each["status"].get("restarts", 0) for each in found)
