"""Classes of block I/O on a real containerd, with the kernel's own throttles and a real disk.

Control groups of version 1, as on this project's machines: rates are measured with direct writes under runc, and with
uncached reads under gVisor, which does not pass direct writes on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tarmac.runtimes.parts import parts_folder
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import BUSYBOX, ContainerdNode
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

BLKIO = Path("/sys/fs/cgroup/blkio")
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not (BLKIO / "cgroup.procs").exists(), reason="needs the controller blkio of version 1"),
]
NODE = "classes-0"
GATE = "--feature-gates=ClassResources=true"
SLOW, FAST = 4 << 20, 10 << 20
WAITS = "trap 'exit 0' TERM; sleep 3600 & wait"


class Node:
    """A server, a node with classes, and a user's operations."""

    def __init__(self, kubectl: Kubectl, agent: AgentProcess) -> None:
        self.kubectl = kubectl
        self.agent = agent

    def create(self, name: str, classes: dict[str, str], **spec: Any) -> None:
        container = {
            "name": "main",
            "image": BUSYBOX,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", WAITS],
            "resources": {"requests": {"cpu": "50m"}, "classes": classes},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": NODE,
                "terminationGracePeriodSeconds": 1,
                "runtimeClassName": "runc",
                "containers": [container],
                "volumes": [{"name": "data", "emptyDir": {}}],
                **spec,
            },
        }
        self.kubectl("create", "-f", "-", stdin=json.dumps(pod))

    def get(self, name: str) -> dict[str, Any]:
        return json.loads(self.kubectl("get", "pod", name, "-o", "json"))

    def container(self, name: str) -> dict[str, Any]:
        return (self.get(name)["status"].get("containerStatuses") or [{}])[0]

    def classes(self, name: str) -> dict[str, str] | None:
        return (self.container(name).get("resources") or {}).get("classes")

    def runs(self, name: str, classes: dict[str, str]) -> None:
        until(lambda: "running" in (self.container(name).get("state") or {}) and self.classes(name) == classes, 60, 0.2)

    def resize(self, name: str, resources: dict[str, Any]) -> None:
        patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        self.kubectl("patch", "pod", name, "--subresource=resize", "-p", json.dumps(patch))

    def group(self, name: str) -> Path:
        """Return the cgroup of the pod's container."""
        whose = self.container(name)["containerID"].rpartition("/")[2]
        found = list(BLKIO.glob(f"{self.agent.cgroup_root[1:]}/**/{whose}"))
        assert found, f"no cgroup of {whose}: {self.get(name)['status']}"
        return found[0]

    def throttle(self, name: str, file: str = "write_bps") -> int:
        text = (self.group(name) / f"blkio.throttle.{file}_device").read_text().split()
        return int(text[1]) if text else 0

    def writes_per_second(self, name: str, seconds: float, expected: int) -> float:
        """Return the fastest of a few rates: a busy machine makes the writer slower, never faster than its limit."""
        rates = [self._writes_per_second(name, seconds, expected)]
        while rates[-1] < 0.9 * expected and len(rates) < 6:
            rates.append(self._writes_per_second(name, seconds, expected))
        return max(rates)

    def _writes_per_second(self, name: str, seconds: float, expected: int) -> float:
        """Return bytes per second of direct writes, timed in the container."""
        count = round(expected * seconds / (256 << 10))
        command = (
            "a=$(cut -d' ' -f1 /proc/uptime); "
            f"dd if=/dev/zero of=/data/f bs=256k count={count} oflag=direct 2>/dev/null; "
            "b=$(cut -d' ' -f1 /proc/uptime); echo $a $b"
        )
        before, after = map(float, self.kubectl("exec", name, "--", "sh", "-c", command).split())
        return count * (256 << 10) / (after - before)


def classes_file(folder: Path) -> Path:
    device = os.stat(folder).st_dev
    disk = f"/dev/block/{os.major(device)}:{os.minor(device)}"
    if not Path(disk).exists():
        disk = f"/dev/{(Path('/sys/dev/block') / f'{os.major(device)}:{os.minor(device)}').resolve().name}"
    entry = "[{{Devices: [{0}], ThrottleReadBps: {1}, ThrottleWriteBps: {1}}}]"
    file = folder / "blockio.yaml"
    file.write_text(f"Classes:\n  slow: {entry.format(disk, SLOW)}\n  fast: {entry.format(disk, FAST)}\n")
    return file


def running(folder: Path, containerd: ContainerdNode, file: Path | None, **settings: Any) -> Iterator[Node]:
    """Run a node; `file` has classes of the agent's own, otherwise the runtime's apply."""
    offered: dict[str, Any] = {"classes": {"slow": {"capacity": 4}, "fast": {}}}
    if file is not None:
        offered["configFile"] = str(file)
    with TarmacProcess(folder / "data", GATE) as server:
        agent = AgentProcess.for_server(
            folder / NODE,
            NODE,
            containerd,
            server,
            GATE,
            classResources={"types": {"blockio": offered}},
            **{"nodeStatusUpdateFrequency": "1s", **settings},
        )
        kubectl = Kubectl(server.kubeconfig, folder)
        with agent:
            yield Node(kubectl, agent)
            kubectl.run("delete", "pods", "--all", "--force", "--grace-period=0")
            until(lambda: not agent.pods)


@pytest.fixture(scope="module")
def node(containerd_node: ContainerdNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("classes")
    yield from running(folder, containerd_node, classes_file(folder))


@pytest.fixture
def pinning_node(containerd_node: ContainerdNode, tmp_path: Path) -> Iterator[Node]:
    """A node with exclusive CPUs and a long reconcile interval."""
    if (os.cpu_count() or 1) < 2:
        pytest.skip("needs two CPUs, one of them reserved")
    static = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "cpuOverSubscriptionCapacity": "1"}
    pause = {"nodeStatusUpdateFrequency": "60s"}
    yield from running(tmp_path, containerd_node, classes_file(tmp_path), **static, **pause)


@pytest.fixture
def runtimes_node(containerd_node: ContainerdNode, tmp_path: Path) -> Iterator[Node]:
    """A node on a containerd that has a class file itself."""
    theirs = ContainerdNode(containerd_node.settings.parts, tmp_path / "containerd", os.getpid(), spare=True)
    theirs.settings = replace(theirs.settings, blockio_config=classes_file(tmp_path))
    try:
        theirs.start()
        yield from running(tmp_path, theirs, None)
    finally:
        theirs.stop()


@pytest.fixture
def old_node(containerd_node: ContainerdNode, tmp_path: Path) -> Iterator[Node]:
    """A node on Debian 12's containerd 1.6."""
    programs = parts_folder() / "debian12"
    if not programs.exists():
        pytest.skip("needs Debian 12's containerd, which could not be had: python -m tools.node_parts")
    parts = replace(
        containerd_node.settings.parts,
        containerd=programs / "containerd",
        ctr=programs / "ctr",
        containerd_shim=programs / "containerd-shim-runc-v2",
    )
    old = ContainerdNode(parts, tmp_path / "containerd", os.getpid(), spare=True)
    try:
        old.start()
        yield from running(tmp_path, old, classes_file(tmp_path))
    finally:
        old.stop()


def near(rate: float, wanted: int) -> bool:
    return 0.9 * wanted <= rate <= 1.1 * wanted


def follow_a_container(node: Node) -> None:
    node.create("writer", {"blockio": "slow"})
    node.runs("writer", {"blockio": "slow"})
    first = node.container("writer")["containerID"]
    rates = [node.writes_per_second("writer", 2, SLOW)]
    node.resize("writer", {"classes": {"blockio": "fast"}})
    until(lambda: node.classes("writer") == {"blockio": "fast"}, 20, 0.2)
    rates.append(node.writes_per_second("writer", 2, FAST))
    # With every change of any limit, the runtime restores the throttles that the container was created with.
    node.resize("writer", {"requests": {"cpu": "60m"}})
    until(lambda: node.container("writer")["resources"]["requests"]["cpu"] == "60m", 20, 0.2)
    rates.append(node.writes_per_second("writer", 2, FAST))
    assert near(rates[0], SLOW), rates
    assert near(rates[1], FAST), rates
    assert near(rates[2], FAST), rates
    after = node.container("writer")
    assert (after["containerID"], after["restartCount"]) == (first, 0), after


def test_a_container_writes_as_fast_as_its_class_lets_it(node: Node) -> None:
    follow_a_container(node)


def test_the_same_on_debian_12s_own_containerd(old_node: Node) -> None:
    found = json.loads(old_node.kubectl("get", "node", NODE, "-o", "json"))
    assert found["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://1.6.")
    follow_a_container(old_node)


def test_a_pod_that_moves_to_other_cpus_keeps_its_class(pinning_node: Node) -> None:
    """A move changes limits, so the runtime restores the throttles that it knows."""
    node = pinning_node
    node.create("moved", {"blockio": "slow"})
    node.runs("moved", {"blockio": "slow"})
    node.resize("moved", {"classes": {"blockio": "fast"}})
    until(lambda: node.classes("moved") == {"blockio": "fast"}, 20, 0.2)
    whole = {"cpu": "1", "memory": "32Mi"}
    alone = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", WAITS]}
    resources = {"requests": whole, "limits": whole, "classes": {"blockio": "slow"}}
    node.create("alone", {}, containers=[{**alone, "imagePullPolicy": "IfNotPresent", "resources": resources}])
    node.runs("alone", {"blockio": "slow"})
    assert node.get("alone")["metadata"]["annotations"]["node.tarmac/cpus"]
    cpus = Path("/sys/fs/cgroup/cpuset") / node.group("moved").relative_to(BLKIO) / "cpuset.cpus"
    assert cpus.read_text().strip() == "0", "it was moved"
    assert (node.throttle("moved"), node.throttle("alone")) == (FAST, SLOW)


def test_classes_of_the_runtimes_own_file(runtimes_node: Node) -> None:
    node = runtimes_node
    status = json.loads(node.kubectl("get", "node", NODE, "-o", "json"))["status"]
    [offered] = status["containerClassResources"]
    assert (offered["name"], offered["immutable"]) == ("blockio", True)
    node.create("theirs", {"blockio": "slow"})
    node.runs("theirs", {"blockio": "slow"})
    assert node.throttle("theirs") == SLOW
    node.resize("theirs", {"classes": {"blockio": "fast"}})
    until(lambda: "PodResizePending" in str(node.get("theirs")["status"]["conditions"]), 20, 0.2)
    pending = [each for each in node.get("theirs")["status"]["conditions"] if each["type"] == "PodResizePending"]
    assert pending[0]["reason"] == "Infeasible"
    file = node.group("theirs") / "blkio.throttle.write_bps_device"
    file.write_text(f"{file.read_text().split()[0]} 123456")
    until(lambda: node.classes("theirs") == {"blockio": ""}, 20, 0.2)  # reported, not repaired: the runtime manages it
    assert node.throttle("theirs") == 123456


def test_throttles_of_the_kernel_are_reported_and_repaired(node: Node) -> None:
    node.create("watched", {"blockio": "slow"})
    node.runs("watched", {"blockio": "slow"})
    assert node.throttle("watched") == SLOW
    file = node.group("watched") / "blkio.throttle.write_bps_device"
    file.write_text(f"{file.read_text().split()[0]} 123456")
    until(lambda: node.throttle("watched") == SLOW, 10, 0.2)

    def told() -> bool:
        events = node.kubectl("get", "events", "--field-selector=reason=ClassNotEffective", "-o", "name")
        return bool(events.strip())

    until(told, 10, 0.2)
    file.parent.joinpath("blkio.throttle.read_iops_device").write_text(f"{file.read_text().split()[0]} 5")
    until(lambda: node.throttle("watched", "read_iops") == 0, 10, 0.2)


def test_the_node_says_what_it_offers(node: Node) -> None:
    status = json.loads(node.kubectl("get", "node", NODE, "-o", "json"))["status"]
    assert status["containerClassResources"] == [
        {"name": "blockio", "classes": [{"name": "fast"}, {"name": "slow", "capacity": 4}]}
    ]
    assert "podClassResources" not in status
    log = node.agent.log.read_text()
    assert "classes of a type are not offered" in log, "rdt: this kernel has none, which the log reports"
    assert "resctrl is not mounted" in log


@pytest.mark.serial
def test_a_wrong_class_fails_within_a_second(node: Node) -> None:
    node.create("wrong", {"blockio": "medium"})
    begun = time.monotonic()
    until(lambda: node.get("wrong")["status"].get("phase") == "Failed", 10, 0.05)
    assert time.monotonic() - begun < 1.5, "including the time of kubectl"
    assert node.get("wrong")["status"]["reason"] == "ClassUnavailable"


def test_a_pod_with_its_own_kernel_reads_as_fast_as_its_class_lets_it(node: Node) -> None:
    node.create("reader", {"blockio": "slow"}, runtimeClassName="gvisor")
    node.runs("reader", {"blockio": "slow"})
    uid = node.get("reader")["metadata"]["uid"]
    size = 3 * SLOW
    [data] = (node.agent.folder / "root" / "pods" / uid / "volumes").glob("*/data")
    (data / "f").write_bytes(os.urandom(size))
    descriptor = os.open(data / "f", os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    begun = time.monotonic()
    node.kubectl("exec", "reader", "--", "dd", "if=/data/f", "of=/dev/null", "bs=256k")
    took = time.monotonic() - begun
    assert 0.9 * size / SLOW <= took <= 1.1 * size / SLOW + 2, f"{took} s, with the start of a process in it"


def test_a_container_is_never_started_without_its_class_by_the_next_agent(node: Node) -> None:
    """kill -9 at successive moments of a start: every running process has its throttle."""
    for attempt, pause in enumerate((0.05, 0.15, 0.3, 0.5)):
        name = f"killed-{attempt}"
        node.create(name, {"blockio": "fast"})
        time.sleep(pause)  # each kill hits a different step of the start
        node.agent.kill()
        node.agent.start()
        until(lambda name=name: "running" in (node.container(name).get("state") or {}), 60, 0.2)
        assert node.throttle(name) == FAST
