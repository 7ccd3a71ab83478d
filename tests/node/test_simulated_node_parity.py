"""Simulated nodes behave like real ones: each scenario runs on both, with the same visible result."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from tarmac.apps.cities.agents import agents_of
from tests.node.planet import Json, Planet, busybox, command_of, eventually, pod
from tests.node.test_machines import ready_to_boot
from tests.support.tarmac_process import TarmacProcess
from tools.cache import ROOT

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "PodResizePending")
NAME = "told"
Seen = dict[str, Any]


class Place:
    """A planet, and a way to restart its node."""

    def __init__(self, planet: Planet, restart: Callable[[], None], *, simulated: bool) -> None:
        self.planet = planet
        self.restart = restart
        self.simulated = simulated

    def create(self, container: Json, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """Create the pod of a scenario on the only node of DFW. Annotations tell a simulated node how it behaves."""
        made = pod(NAME, container, nodeSelector={"kubernetes.io/hostname": "dfw-0"}, **spec)
        made["metadata"]["annotations"] = {f"sim.tarmac/{key}": value for key, value in (annotations or {}).items()}
        self.planet.apply(made)

    def pod(self) -> Json:
        return self.planet.get("pod", NAME)

    def status(self) -> Json:
        """Return the status of its only container; empty while there is none."""
        return next(iter(self.pod()["status"].get("containerStatuses") or ()), {})

    def until(self, check: Callable[[], bool], what: str, seconds: float = 60) -> None:
        try:
            eventually(check, seconds, what)
        except AssertionError as error:
            sort = "simulated" if self.simulated else "real"
            described = self.planet.kubectl.run("describe", "pod", NAME)
            raise AssertionError(f"{error} on {sort} nodes:\n{described}") from None

    def waits(self, reason: str) -> Callable[[], bool]:
        return lambda: self.status().get("state", {}).get("waiting", {}).get("reason") == reason

    def is_ready(self) -> bool:
        return conditions(self.pod()).get("Ready", ("", ""))[0] == "True"

    def events(self) -> set[str]:
        """Return the reasons of the node's events for the pod."""
        found = self.planet.get("events", "--field-selector", f"involvedObject.name={NAME}")["items"]
        return {each["reason"] for each in found if each["source"].get("component") == "kubelet"}

    def seen(self, *events: str) -> Seen:
        """Return the visible state of the pod, once these events have arrived."""
        self.until(lambda: self.events() >= {*events}, f"the events {events}")
        found, status = self.pod(), self.status()
        last = status.get("lastState", {}).get("terminated", {})
        return {
            "phase": found["status"]["phase"],
            "conditions": conditions(found),
            "waiting": status.get("state", {}).get("waiting", {}).get("reason"),
            "last": (last.get("exitCode"), last.get("reason")),
            "started": status.get("started"),
            "address": bool(found["status"].get("podIP")),
            "events": self.events(),
        }


def conditions(found: Json) -> dict[str, tuple[str, str]]:
    """Return status and reason by type."""
    stated = {
        each["type"]: (each["status"], each.get("reason", "")) for each in found["status"].get("conditions") or ()
    }
    return {kind: stated[kind] for kind in CONDITIONS if kind in stated}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("simulated") / "data"
    flags = ("--runtime", "sim", "--cities", "DFW,LHR", "--sim-nodes", "1")
    with TarmacProcess(directory, *flags, command="up") as process:

        def restart() -> None:
            process.kill()
            process.start()

        yield Place(Planet(process, directory.parent), restart, simulated=True)


@pytest.fixture(scope="module")
def real(planet: Planet) -> Place:
    def pids() -> set[int]:
        return {pid for pid in agents_of(planet.data_dir) if "dfw-0" in command_of(pid)}

    def restart() -> None:
        before = pids()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: bool(pids() - before), 30, "another agent")

    return Place(planet, restart, simulated=False)


@pytest.fixture(autouse=True)
def removed(simulated: Place, real: Place) -> Iterator[None]:
    yield
    for place in (simulated, real):
        place.planet.remove(NAME)
        # Only the pod's: earlier tests leave thousands on the shared planet, and kubectl deletes them one by one.
        place.planet.kubectl.run("delete", "events", f"--field-selector=involvedObject.name={NAME}", timeout=60)


def crashes(place: Place) -> Seen:
    """A program that fails is restarted, with longer and longer waits."""
    place.create(busybox(script="exit 1"), {"crash-after": "0s"})
    place.until(lambda: place.waits("CrashLoopBackOff")() and place.status()["restartCount"] >= 1, "a crash loop")
    return place.seen("Pulled", "Created", "Started", "BackOff")


def has_no_such_registry(place: Place) -> Seen:
    """The registry of an image does not exist."""
    place.create({**busybox(), "image": "registry.invalid/tarmac/none:1"})
    place.until(place.waits("ImagePullBackOff"), "the back-off of its pull")
    return place.seen("Pulling", "Failed", "BackOff")


def has_no_such_name(place: Place) -> Seen:
    """The name of an image cannot be one."""
    place.create({**busybox(), "image": "registry.local/tarmac/Busybox:1"})
    place.until(place.waits("ImagePullBackOff"), "the back-off of its pull")
    return place.seen("Failed", "BackOff")


def is_resized(place: Place) -> Seen:
    """A running container gets more processor time, but not more than the node has."""
    place.create(busybox(resources={"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}))
    place.until(place.is_ready, "its start")
    found: Seen = {}
    for step, cpu in (("more", "300m"), ("too much", "1000")):
        amounts = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
        patch = yaml.safe_dump({"spec": {"containers": [{"name": "main", "resources": amounts}]}})
        place.planet.kubectl("patch", "pod", NAME, "--subresource=resize", "-p", patch)

        def settled() -> bool:
            pending = "PodResizePending" in conditions(place.pod())
            return pending or place.status().get("resources", {}).get("limits") == amounts["limits"]  # noqa: B023

        place.until(settled, "the resize")
        status = place.status()
        found[step] = (status["allocatedResources"], status["resources"], status["restartCount"])
    return found | place.seen("Started")


def is_gated(place: Place) -> Seen:
    """A readiness gate keeps a pod from being ready until its condition is set."""
    place.create(busybox(), readinessGates=[{"conditionType": "example.com/checked"}])
    place.until(lambda: conditions(place.pod()).get("ContainersReady", ("",))[0] == "True", "its containers")
    before = conditions(place.pod())
    checked = yaml.safe_dump({"status": {"conditions": [{"type": "example.com/checked", "status": "True"}]}})
    place.planet.kubectl("patch", "pod", NAME, "--subresource=status", "-p", checked)
    place.until(place.is_ready, "its readiness")
    return {"before": before} | place.seen("Started")


def is_never_ready(place: Place) -> Seen:
    """A readiness probe that fails leaves the container running, and unready."""
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    place.create(busybox(readinessProbe=probe), {"failing-probes": "readiness"})
    return place.seen("Started", "Unhealthy") | {"restarts": place.status()["restartCount"]}


def does_not_live(place: Place) -> Seen:
    """A liveness probe that fails restarts the container, with longer and longer waits."""
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}
    place.create(
        busybox(script="trap '' TERM; while :; do sleep 0.2; done", livenessProbe=probe), {"failing-probes": "liveness"}
    )
    place.until(place.waits("CrashLoopBackOff"), "a loop of restarts")
    return place.seen("Started", "Unhealthy", "Killing", "BackOff")


def outlives_its_agent(place: Place) -> Seen:
    """Programs keep running while their node's agent is killed and restarted."""
    place.create(busybox())
    place.until(place.is_ready, "its start")
    before, container = place.seen("Started"), place.status()["containerID"]
    place.restart()
    renewed = place.planet.get("lease", "dfw-0", "-n", "kube-node-lease")["spec"]["renewTime"]
    place.until(
        lambda: place.planet.get("lease", "dfw-0", "-n", "kube-node-lease")["spec"]["renewTime"] > renewed,
        "a sign of life",
    )
    after = place.seen("Started")
    assert (after, place.status()["containerID"], place.status()["restartCount"]) == (before, container, 0)
    return after


STORIES = [
    crashes,
    has_no_such_registry,
    has_no_such_name,
    is_resized,
    is_gated,
    is_never_ready,
    does_not_live,
    outlives_its_agent,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_user_sees_the_same(story: Callable[[Place], Seen], simulated: Place, real: Place) -> None:
    assert story(simulated) == story(real)


def test_the_smallest_machine_runs_on_both(simulated: Place, real: Place) -> None:
    """The RFC's example. The real nodes have a file of its image's name; simulated ones fetch nothing."""
    for node in ("dfw-0", "lhr-0"):
        ready_to_boot(real.planet, node)
    example = yaml.safe_load((ROOT / "examples" / "virtualmachine-minimum.yaml").read_text())
    example["spec"]["placements"][0]["cityCodes"] = ["DFW", "LHR"]
    name = example["metadata"]["name"]
    seen: list[Seen] = []
    try:
        for place in (simulated, real):
            place.planet.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(example))
            place.planet.wait(f"workload/{name}", "jsonpath={.status.readyReplicas}=2", 120)
            instances = place.planet.get("instances", "-l", f"compute.datumapis.com/workload-name={name}")["items"]
            seen.append({"instances": sorted(yaml.safe_dump(reasons_of(each)) for each in instances)})
    finally:
        for place in (simulated, real):
            place.planet.kubectl.run("delete", "workload", name, "--wait", timeout=90)
    assert seen[0] == seen[1]


def test_a_machine_that_asks_for_a_gpu_waits_on_both(simulated: Place, real: Place) -> None:
    """Simulated nodes have GPUs, for sandboxes; real ones have none. Machines get none on either: reasons differ."""
    example = yaml.safe_load((ROOT / "examples" / "virtualmachine-minimum.yaml").read_text())
    spec = example["spec"]["template"]["spec"]
    gpu = {"cpu": "1", "memory": "256Mi", "datumcloud.com/nvidia-tesla-a100": "1"}
    spec["runtime"]["resources"] = {"instanceType": "datumcloud/d1-custom", "requests": gpu}
    example["spec"]["placements"][0]["cityCodes"] = ["DFW"]
    example["metadata"]["name"] = NAME
    seen: list[Seen] = []
    try:
        for place in (simulated, real):
            place.planet.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(example))
            eventually(partial(is_refused, place), 60, "a machine that no node takes")
            (instance,) = refused(place)
            statuses = {kind: status for kind, (status, _) in reasons_of(instance).items()}
            seen.append({"conditions": statuses, "node": instance["status"].get("nodeName")})
    finally:
        for place in (simulated, real):
            place.planet.kubectl.run("delete", "workload", NAME, "--wait", timeout=90)
    assert seen[0] == seen[1]


def refused(place: Place) -> list[Json]:
    """Return the instances that no node takes."""
    found = place.planet.get("instances", "-l", f"compute.datumapis.com/workload-name={NAME}")["items"]
    told = [each for each in found if each.get("status", {}).get("conditions")]
    return [each for each in told if reasons_of(each)["Ready"][1] in ("InsufficientCapacity", "DeviceUnsupported")]


def is_refused(place: Place) -> bool:
    """No node takes an instance."""
    return bool(refused(place))


def workload(image: str) -> Json:
    container: Json = {"name": "main", "image": image, "command": ["sleep", "3600"]}
    resources = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "100m", "memory": "64Mi"}}
    runtime: Json = {"resources": resources, "sandbox": {"containers": [container]}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": NAME},
        "spec": {
            "template": {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}},
            "placements": [{"name": "all", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}],
        },
    }


def rolls_out(place: Place) -> Seen:
    """A good release, one with an unavailable image, and the rollback."""
    found: Seen = {}
    works = "registry.local/tarmac/busybox:1"
    releases = {"first": works, "bad": "registry.invalid/tarmac/none:1", "good again": works}
    for step, image in releases.items():
        place.planet.apply(workload(image))

        def settled() -> bool:
            own = place.planet.get("workload", NAME)
            said = reasons_of(own) if own.get("status", {}).get("conditions") else {}
            newest = own["status"].get("observedGeneration") == own["metadata"]["generation"] if said else False
            wanted = "RolloutFailed" if step == "bad" else "Complete"  # noqa: B023
            return newest and said["Progressing"][1] == wanted and own["status"].get("readyReplicas") == 1

        eventually(settled, 120, f"the release {step!r}")
        own = place.planet.get("workload", NAME)
        (instance,) = place.planet.get("instances", "-l", f"compute.datumapis.com/workload-name={NAME}")["items"]
        summary = {name: own["status"].get(name) for name in ("readyReplicas", "updatedReplicas", "desiredReplicas")}
        found[step] = (reasons_of(own), reasons_of(instance), summary)
    return found


def test_a_release_goes_the_same_way_on_both(simulated: Place, real: Place) -> None:
    try:
        assert rolls_out(simulated) == rolls_out(real)
    finally:
        for place in (simulated, real):
            place.planet.kubectl.run("delete", "workload", NAME, "--wait", timeout=90)


def reasons_of(found: Json) -> dict[str, list[str]]:
    """Return status and reason by type."""
    return {each["type"]: [each["status"], each["reason"]] for each in found["status"]["conditions"]}
