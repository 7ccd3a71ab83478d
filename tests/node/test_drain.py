"""Stock kubectl drains a node under a disruption budget, on simulated nodes and on real ones.

kubectl evicts as many pods as the budget allows and waits; it continues when other pods are ready elsewhere, and ends.
Meanwhile a watch sees every change of the budget's pods: at no moment are too few of them healthy.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.node.planet import Json, Planet, busybox, eventually, pod
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(300)]

CITY, LOCATION = "topology.datum.net/city-code", "topology.datum.net/location"


@pytest.fixture(params=["sim", pytest.param("containerd", marks=pytest.mark.root)])
def cities(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planet]:
    """Two cities with a node each."""
    if request.param == "containerd":
        yield request.getfixturevalue("planet")
        return
    directory = tmp_path_factory.mktemp("sim") / "data"
    flags = ("--runtime", "sim", "--cities", "DFW,LHR", "--sim-nodes", "1", "--store", "memory://")
    with TarmacProcess(directory, *flags, command="up") as process:
        yield Planet(process, directory.parent)


class Drain:
    """A running `kubectl drain`, and the states of a selector's pods meanwhile."""

    def __init__(self, drain: subprocess.Popen[str], seen: Path) -> None:
        self._drain = drain
        self._seen = seen

    def output(self) -> str:
        """Return all output until it ends."""
        said, _ = self._drain.communicate(timeout=120)
        assert self._drain.returncode == 0, said
        return said

    def waits(self) -> bool:
        return self._drain.poll() is None

    def fewest_healthy(self, of: int) -> int:
        """Return the smallest number of pods that were ready and not being deleted, since the watch knew them all."""
        healthy: set[str] = set()
        counts: list[int] = []
        for event in _documents(self._seen.read_text()):
            name = event["object"]["metadata"]["name"]
            (healthy.add if event["type"] != "DELETED" and _is_healthy(event["object"]) else healthy.discard)(name)
            counts.append(len(healthy))
        return min(counts[counts.index(of) :])


def _documents(text: str) -> Iterator[Json]:
    """Yield JSON documents, one after the other; the last may be incomplete."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        try:
            found, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError:
            return
        yield found
        position += len(text[position:]) - len(text[position:].lstrip())


def _is_healthy(found: Json) -> bool:
    conditions = found["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in found["metadata"]


@contextmanager
def draining(planet: Planet, node: str, selector: str, folder: Path) -> Generator[Drain]:
    """Drain a node of the pods of a selector, and uncordon it in the end."""
    seen = folder / "seen.json"
    command = [planet.kubectl.binary, "--kubeconfig", str(planet.process.kubeconfig), "get", "pods", "-l", selector]
    command += ["--watch", "--output-watch-events", "-o", "json", "--cache-dir", str(folder)]
    with seen.open("w") as file, subprocess.Popen(command, stdout=file) as watcher:
        try:
            eventually(lambda: seen.stat().st_size > 0, what="the watch")
            with planet.kubectl.start(
                "drain", node, f"--pod-selector={selector}", "--force", "--timeout=100s"
            ) as drain:
                try:
                    yield Drain(drain, seen)
                finally:
                    drain.kill()
        finally:
            watcher.kill()
            planet.kubectl("uncordon", node)


def budget(name: str, least: int, labels: dict[str, str]) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": labels}},
    }


def node_of(planet: Planet, city: str) -> str:
    (found,) = planet.get("nodes", "-l", f"{CITY}={city}")["items"]
    return found["metadata"]["name"]


def allows(planet: Planet, name: str, count: int) -> None:
    """Wait until the budget allows so many."""
    planet.wait(f"pdb/{name}", f"jsonpath={{.status.disruptionsAllowed}}={count}", 90)


def on(planet: Planet, node: str, selector: str) -> int:
    found = planet.get("pods", "-l", selector, f"--field-selector=spec.nodeName={node}")["items"]
    return sum("deletionTimestamp" not in each["metadata"] for each in found)


def plain(name: str, location: str) -> Json:
    made = pod(name, busybox(), nodeSelector={LOCATION: location})
    made["metadata"]["labels"] = {"app": "drained"}
    return made


def test_plain_pods_leave_a_drained_node_as_others_become_ready_elsewhere(cities: Planet, tmp_path: Path) -> None:
    node, selector, names = node_of(cities, "DFW"), "app=drained", ("d-a", "d-b", "d-c", "d-d")
    try:
        cities.apply(budget("drained", 2, {"app": "drained"}), *map(plain, names[:3], ("dfw", "dfw", "lhr")))
        allows(cities, "drained", 1)
        with draining(cities, node, selector, tmp_path) as drain:
            eventually(lambda: on(cities, node, selector) == 1, what="the first to go")
            allows(cities, "drained", 0)
            assert "have to be healthy, and 2 are" in why(cities, node)
            assert drain.waits()
            cities.apply(plain("d-d", "lhr"))
            assert "drained" in drain.output().splitlines()[-1]
            assert on(cities, node, selector) == 0
            assert drain.fewest_healthy(of=3) == 2
    finally:
        cities.kubectl.run("delete", "pdb", "drained", "--ignore-not-found")
        cities.remove(*names)


def test_a_workload_under_a_budget_over_all_cities_leaves_a_drained_node(cities: Planet, tmp_path: Path) -> None:
    labels = {"compute.datumapis.com/workload-name": "drained"}
    node, selector = node_of(cities, "DFW"), "compute.datumapis.com/workload-name=drained"
    try:
        cities.apply(workload(lhr=2), budget("drained", 3, labels))
        cities.wait("workload/drained", "jsonpath={.status.readyReplicas}=4", 120)
        allows(cities, "drained", 1)
        with draining(cities, node, selector, tmp_path) as drain:
            eventually(lambda: on(cities, node, selector) == 1, what="the first to go")
            allows(cities, "drained", 0)
            assert "have to be healthy, and 3 are" in why(cities, node)
            assert drain.waits()
            cities.apply(workload(lhr=3))  # a disruption in one city counts in the other
            assert "drained" in drain.output().splitlines()[-1]
            assert on(cities, node, selector) == 0
            assert drain.fewest_healthy(of=4) == 3
        cities.wait("workload/drained", "jsonpath={.status.readyReplicas}=5", 120)
    finally:
        cities.kubectl.run("delete", "workload,pdb", "drained", "--ignore-not-found", timeout=90)


def workload(lhr: int, dfw: int = 2, name: str = "drained", cpu: str = "50m", **more: str) -> Json:
    runtime = {
        "resources": {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": cpu, "memory": "64Mi"}},
        "sandbox": {"containers": [busybox()], "terminationGracePeriodSeconds": 1},
    }
    template = {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}], **more}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, "placements": [placement("DFW", dfw), placement("LHR", lhr)]},
    }


def placement(city: str, replicas: int) -> Json:
    settings = {"minReplicas": replicas, "instanceManagementPolicy": "Parallel"}
    return {"name": city.lower(), "cityCodes": [city], "scaleSettings": settings}


def why(planet: Planet, node: str) -> str:
    """Return the verdicts of `tarmac why` about a node, on one line."""
    answer = json.loads(planet.kubectl("get", "--raw", f"/api/v1/nodes/{node}/why"))
    return " ".join(each["message"] for each in answer["verdicts"])


VITAL = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "vital"}, "value": 1000}


def test_a_full_planet_makes_room_for_what_is_important(cities: Planet) -> None:
    """First for a pod, then for a Workload in every city."""
    node = cities.get("node", node_of(cities, "LHR"))
    size = f"{milli(node['status']['allocatable']['cpu']) * 6 // 10}m"  # one fits, two do not
    try:
        cities.apply(VITAL, workload(1, 1, "low", size))
        cities.wait("workload/low", "jsonpath={.status.readyReplicas}=2", 90)
        container = busybox(resources={"requests": {"cpu": size}})
        cities.apply(pod("p-vital", container, nodeSelector={LOCATION: "lhr"}, priorityClassName="vital"))
        cities.wait("pod/p-vital", "condition=Ready", 90)
        assert cities.get("pod", "p-vital")["spec"]["nodeName"] == node["metadata"]["name"]
        assert [each.partition(" on ")[0] for each in preempted(cities)] == ["Preempted by pod default/p-vital"]
        cities.remove("p-vital")
        cities.wait("workload/low", "jsonpath={.status.readyReplicas}=2", 90)
        cities.apply(workload(1, 1, "vital", size, priorityClassName="vital"))
        cities.wait("workload/vital", "jsonpath={.status.readyReplicas}=2", 90)
        assert len(preempted(cities)) == 3, "one more in each city"
    finally:
        cities.kubectl.run("delete", "workload", "low", "vital", "--ignore-not-found", timeout=90)
        cities.kubectl.run("delete", "priorityclass", "vital", "--ignore-not-found")
        cities.remove("p-vital")


def preempted(planet: Planet) -> list[str]:
    """Return the event messages of preempted pods."""
    return [each["message"] for each in planet.get("events", "--field-selector=reason=Preempted")["items"]]


def milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)
