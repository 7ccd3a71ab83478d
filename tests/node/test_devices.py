"""Devices of a real node: given to containers of a shared kernel, kept over kill -9 of agent and plugin, given once.

With Kubernetes' own sample plugin (`PEERS=1`), and with one of the tests' that behaves alike.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tarmac.apps.cities.agents import agents_of
from tests.node.planet import Json, Planet, busybox, eventually, pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

RESOURCE, BROKEN = "example.com/resource", "example.com/broken"
CITY = "dfw"
NODE = f"{CITY}-0"
ROOT = Path(__file__).parents[2]
CDI = Path("/var/run/cdi/example.com.json")
"""The device specification that the sample writes for the runtime."""
# The sample looks for the agent at one path only, so the city's folder is mounted there. Without an agent it ends, so a
# loop starts it again.
IN_ITS_PLACE = (
    "mount -t tmpfs tmpfs /var/lib && mkdir -p /var/lib/kubelet/device-plugins"
    ' && mount --bind "$0" /var/lib/kubelet/device-plugins && while :; do "$1"; sleep 1; done'
)


class PluginProcess:
    """A plugin in a process of its own; `kill` is kill -9. `mark` prints, in a container, the plugin's environment."""

    def __init__(self, command: list[str], log: Path, mark: str) -> None:
        self.mark = mark
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            environment = {**os.environ, "CDI_ENABLED": "1"}
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture(scope="module", params=["ours", pytest.param("sample", marks=pytest.mark.peers)])
def plugin(
    request: pytest.FixtureRequest, planet: Planet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PluginProcess]:
    folder = str(devices_folder(planet))
    command = [sys.executable, "-m", "tests.agent.devices.program", folder, RESOURCE]
    mark = "echo $GPUS; ls /gpu"
    if request.param == "sample":
        program = os.environ.get("TARMAC_PEER_DEVICE_PLUGIN", "")
        if not os.access(program, os.X_OK):
            pytest.skip(f"NOT RUN: TARMAC_PEER_DEVICE_PLUGIN names no executable ({program!r}); run with PEERS=1")
        command = ["unshare", "--mount", "sh", "-c", IN_ITS_PLACE, folder, program]
        mark = "echo ${CDI_DEVICE#CDI-}; ls /tmp | grep ^Dev"
        CDI.parent.mkdir(parents=True, exist_ok=True)
    process = PluginProcess(command, tmp_path_factory.mktemp("plugin") / "log", mark)
    process.start()
    try:
        eventually(lambda: allocatable(planet) == "2", 60, "two devices")
        yield process
    finally:
        process.kill()
        for left in (Path("/tmp/Dev-1"), Path("/tmp/Dev-2"), CDI):
            # a mount over a device that is gone makes containerd create a directory of that name
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def cleared(planet: Planet) -> Iterator[None]:
    """Remove everything of the previous test."""
    yield
    planet.kubectl.run("delete", "workloads,pods", "--all", "--wait", timeout=60)


def devices_folder(planet: Planet) -> Path:
    """The folder of plugins of the city's agent."""
    for pid in agents_of(planet.data_dir):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if f"--node-name={NODE}" in words:
            return Path(next(each for each in words if each.startswith("--device-plugin-dir=")).partition("=")[2])
    raise AssertionError(f"no agent of {NODE}")


def kill_agent(planet: Planet) -> None:
    for pid in agents_of(planet.data_dir):
        if f"--node-name={NODE}" in Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0"):
            os.kill(pid, signal.SIGKILL)


def allocatable(planet: Planet, resource: str = RESOURCE) -> str | None:
    return planet.get("node", NODE)["status"]["allocatable"].get(resource)


def asking(name: str, number: int = 1, **spec: object) -> Json:
    amounts = {RESOURCE: str(number)}
    return pod(
        name, busybox(resources={"limits": amounts, "requests": amounts}), **{"runtimeClassName": "runc", **spec}
    )


def ids(planet: Planet, name: str) -> list[str]:
    """Return the devices in a pod's status."""
    status: Json = planet.get("pod", name)["status"]["containerStatuses"][0]
    return [each["resourceID"] for each in status["allocatedResourcesStatus"][0]["resources"]]


def container(planet: Planet, name: str) -> tuple[str, int]:
    status: Json = planet.get("pod", name)["status"]["containerStatuses"][0]
    return status["containerID"], status["restartCount"]


def workload(name: str, resource: str = RESOURCE) -> Json:
    runtime = {
        "resources": {
            "instanceType": "datumcloud/d1-custom",
            "requests": {"cpu": "100m", "memory": "64Mi", resource: "1"},
        },
        "sandbox": {"containers": [busybox()]},
    }
    template = {
        "metadata": {"annotations": {"compute.datumapis.com/runtime-class": "runc"}},
        "spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]},
    }
    placement = {"name": "here", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"template": template, "placements": [placement]},
    }


def test_a_workload_of_a_shared_kernel_gets_a_device(planet: Planet, plugin: PluginProcess) -> None:
    planet.apply(workload("gpu"))
    planet.wait("workload/gpu", "condition=Available", 90)
    name = planet.get("pods", "-l", "compute.datumapis.com/workload-name=gpu")["items"][0]["metadata"]["name"]
    [device] = ids(planet, name)
    assert planet.exec(name, "sh", "-c", plugin.mark).split() == [device, device]


def test_kill_9_of_agent_and_plugin_gives_no_device_twice_and_takes_none(planet: Planet, plugin: PluginProcess) -> None:
    planet.apply(asking("first"))
    planet.wait("pod/first", "condition=Ready")
    held, before = ids(planet, "first"), container(planet, "first")
    for turn in range(3):
        if turn != 1:
            kill_agent(planet)
        if turn != 0:
            plugin.kill()
            plugin.start()
        name = f"next-{turn}"
        eventually(lambda: allocatable(planet) == "2", 60, "two devices")
        planet.apply(asking(name))
        planet.wait(f"pod/{name}", "condition=Ready", 90)
        assert sorted([*held, *ids(planet, name)]) == ["Dev-1", "Dev-2"]
        assert (ids(planet, "first"), container(planet, "first")) == (held, before)
        planet.remove(name)


def test_an_agent_killed_in_the_middle_of_starts_gives_each_device_once(planet: Planet, plugin: PluginProcess) -> None:
    for turn in range(2):
        names = [f"r{turn}-a", f"r{turn}-b"]
        planet.apply(*(asking(name) for name in names))
        kill_agent(planet)
        for name in names:
            planet.wait(f"pod/{name}", "condition=Ready", 90)
        assert sorted(ids(planet, names[0]) + ids(planet, names[1])) == ["Dev-1", "Dev-2"]
        planet.remove(*names)
        eventually(lambda: allocatable(planet) == "2", 60, "two devices")


def test_a_sandbox_with_its_own_kernel_is_not_scheduled_to_a_device_it_could_not_reach(
    planet: Planet, plugin: PluginProcess
) -> None:
    planet.apply(asking("sandboxed", runtimeClassName="gvisor"))
    eventually(lambda: "no devices under gvisor" in scheduled(planet, "sandboxed"), 30, "a reason")


def test_a_pod_that_was_bound_by_hand_is_refused_by_the_node(planet: Planet, plugin: PluginProcess) -> None:
    planet.apply(asking("bound", runtimeClassName="gvisor", nodeName=NODE))
    eventually(lambda: planet.get("pod", "bound")["status"].get("phase") == "Failed", 10, "a refusal")
    status: Json = planet.get("pod", "bound")["status"]
    assert status["reason"] == "DeviceUnsupported"
    assert f'runtime handler "gvisor" does not pass devices on, and the pod asks for {RESOURCE}' in status["message"]
    assert "handlers that do: runc" in status["message"]


def test_an_instance_whose_device_the_plugin_refuses_backs_off(planet: Planet, tmp_path: Path) -> None:
    """The waits for the next pod are 1, 2, 4 and 8 s, and `why` names the node and its cause."""
    folder = str(devices_folder(planet))
    command = [sys.executable, "-m", "tests.agent.devices.program", folder, BROKEN, "refuse"]
    plugin = PluginProcess(command, tmp_path / "log", "")
    plugin.start()
    try:
        eventually(lambda: allocatable(planet, BROKEN) == "2", 60, "two devices")
        planet.apply(workload("refused", BROKEN))
        selector, pods = "compute.datumapis.com/workload-name=refused", dict[str, float]()  # uid -> first seen
        eventually(lambda: bool(planet.get("pods", "-l", selector)["items"]), 30, "the first pod")
        began, soon, said = time.monotonic(), 0, set[str]()
        while (lasted := time.monotonic() - began) < 20 or (len(pods) < 4 and lasted < 90):
            for each in planet.get("pods", "-l", selector)["items"]:
                pods.setdefault(each["metadata"]["uid"], time.monotonic())
            soon = len(pods) if lasted < 20 else soon
            [instance] = planet.get("instances", "-l", selector)["items"]
            conditions = instance.get("status", {}).get("conditions", ())
            said |= {each["message"] for each in conditions if each["reason"] == "RefusedByNode"}
            time.sleep(0.2)
        eventually(lambda: f"{NODE} has ended its pod" in planet.tarmac("why", "workload/refused"), 60, "the reason")
    finally:
        plugin.kill()
        planet.kubectl.run("delete", "workload", "refused", "--ignore-not-found", "--wait=false")
        eventually(lambda: allocatable(planet, BROKEN) in (None, "0"), 60, "no device")
    assert len(pods) >= 4, "tried again"
    gaps = [after - before for before, after in pairwise(pods.values())]
    # The test sees a pod up to a second after its creation.
    assert all(gap > 2**number - 1 for number, gap in enumerate(gaps)), gaps
    assert gaps[2] > gaps[0], gaps
    assert soon <= 6, "waits of 1, 2, 4 and 8 s"
    assert all(f"{NODE} has ended its pod " in each for each in said)
    assert said


def scheduled(planet: Planet, name: str) -> str:
    conditions: list[Json] = planet.get("pod", name)["status"].get("conditions") or []
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
