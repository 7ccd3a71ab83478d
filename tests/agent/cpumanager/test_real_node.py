"""Exclusive processors on a real node, checked against the kernel's cpuset of every process.

The machine needs two processors: one is reserved, the other is given to a container.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.cpumanager.statefile import NAME
from tarmac.agent.stats.topology import online
from tests.soak import SOAK
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import BUSYBOX, ContainerdNode
from tests.support.exposition import series
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]
NODE = "cpus-0"
STATIC = {"cpuManagerPolicy": "static", "cpuManagerReconcilePeriod": "2s", "systemReserved": {"cpu": "1"}}
SLEEP = "trap 'exit 0' TERM; sleep 3600 & wait"


@dataclass
class RealNode:
    kubectl: Kubectl
    agent: AgentProcess

    def create(self, name: str, cpu: str = "", handler: str = "runc", command: str = SLEEP) -> None:
        """Create a pod; a whole number of processors makes them exclusive."""
        container: dict[str, Any] = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", command]}
        if cpu:
            amounts = {"cpu": cpu, "memory": "128Mi"}
            container["resources"] = {"requests": amounts, "limits": amounts}
        spec: dict[str, Any] = {"nodeName": NODE, "terminationGracePeriodSeconds": 1, "containers": [container]}
        if handler:
            spec["runtimeClassName"] = handler
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.kubectl("create", "-f", "-", stdin=json.dumps(made))

    def run(self, name: str, cpu: str = "", handler: str = "runc", command: str = SLEEP) -> None:
        """Create a pod and wait until it runs."""
        self.create(name, cpu, handler, command)
        until(lambda: self.get(name)["status"].get("phase") == "Running", 60, 0.2)

    def restart(self, name: str) -> None:
        """End the pod's container and wait for its restart."""
        self.kubectl.run("exec", name, "--", "kill", "1")  # the command ends with its container
        until(lambda: self.get(name)["status"]["containerStatuses"][0]["restartCount"] == 1, 60, 0.5)
        until(lambda: "running" in self.get(name)["status"]["containerStatuses"][0]["state"], 60, 0.5)

    def get(self, name: str) -> dict[str, Any]:
        return json.loads(self.kubectl("get", "pod", name, "-o", "json"))

    def end(self, *names: str) -> None:
        self.kubectl("delete", "pod", *names, "--wait=true")

    def allowed(self, name: str) -> set[str]:
        """Return `Cpus_allowed_list` of every process of a pod, including its sandbox."""
        pids = {pid for found in self._processes(name) for pid in found}
        assert pids, f"pod {name} has no processes"
        found = {_allowed(pid) for pid in pids}
        return found - {""}

    def groups_in_use(self, name: str) -> int:
        """Count the cgroups of a pod that have processes."""
        return sum(1 for found in self._processes(name) if found)

    def _processes(self, name: str) -> list[list[str]]:
        uid = self.get(name)["metadata"]["uid"]
        top = self.agent.cgroup_root.strip("/")
        roots = (Path("/sys/fs/cgroup/cpuset") / top, Path("/sys/fs/cgroup") / top)
        files = [file for root in roots for file in root.glob(f"kubepods/**/pod{uid}/**/cgroup.procs")]
        return [file.read_text().split() for file in files]

    def inside(self, name: str) -> str:
        """Return the `Cpus_allowed_list` that a container reads about itself."""
        return self.kubectl("exec", name, "--", "grep", "Cpus_allowed_list", "/proc/self/status").split()[1]

    def capacity(self) -> dict[str, str]:
        return json.loads(self.kubectl("get", "node", NODE, "-o", "json"))["status"]["capacity"]

    def events(self, reason: str) -> list[str]:
        found = json.loads(self.kubectl("get", "events", "-A", "-o", "json", f"--field-selector=reason={reason}"))
        return [event["message"] for event in found["items"]]

    def settings(self, **changes: Any) -> None:
        said = json.loads(self.agent.config.read_text())
        self.agent.config.write_text(json.dumps({**said, **changes}))

    def metric(self, name: str) -> str:
        text = self.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/metrics")
        return f"{series(text)[name, frozenset()]:g}"


def _allowed(pid: str) -> str:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))


@pytest.fixture(scope="module")
def node(containerd_node: ContainerdNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    if len(online()) != 2 or len(os.sched_getaffinity(0)) != 2:
        pytest.skip("NOT RUN: the lists that these tests expect are those of a machine with two processors")
    folder = tmp_path_factory.mktemp("cpus")
    with TarmacProcess(folder / "data") as server:
        agent = AgentProcess.for_server(folder / NODE, NODE, containerd_node, server, "--future-flag=1", **STATIC)
        kubectl = Kubectl(server.kubeconfig, folder)
        handler = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "gvisor"}}
        kubectl.run("create", "-f", "-", stdin=json.dumps({**handler, "handler": "gvisor"}))
        with agent:
            yield RealNode(kubectl, agent)
            kubectl.run("delete", "pods", "--all", "--force", "--grace-period=0")
            until(lambda: not agent.pods)


@pytest.fixture(autouse=True)
def nothing_left(node: RealNode) -> Iterator[None]:
    yield
    node.kubectl.run("delete", "pods", "--all", "--force", "--grace-period=0", timeout=60)
    until(lambda: not node.agent.pods, 60)


def test_before_during_and_after_an_exclusive_pod(node: RealNode) -> None:
    assert (node.capacity()["cpu"], node.capacity()["cpu exclusive"]) == ("2", "1")
    node.run("runc")
    node.run("gvisor", handler="gvisor")
    assert (node.allowed("runc"), node.allowed("gvisor"), node.inside("runc")) == ({"0-1"}, {"0-1"}, "0-1")
    node.run("own", "1")
    assert (node.allowed("own"), node.inside("own")) == ({"1"}, "1")
    assert (node.allowed("runc"), node.allowed("gvisor"), node.inside("runc")) == ({"0"}, {"0"}, "0")
    node.run("late")
    node.run("late-gvisor", handler="gvisor")
    assert (node.allowed("late"), node.allowed("late-gvisor")) == ({"0"}, {"0"})
    until(lambda: "node.tarmac/cpus" in (node.get("own")["metadata"].get("annotations") or {}), 10)
    assert node.get("own")["metadata"]["annotations"]["node.tarmac/cpus"] == '{"main":"1"}'
    assert node.metric("kubelet_cpu_manager_exclusive_cpu_allocation_count") == "1"
    assert node.metric("kubelet_cpu_manager_shared_pool_size_millicores") == "1000"
    node.create("more", "1")
    until(lambda: node.get("more")["status"].get("phase") == "Failed", 5)
    status = node.get("more")["status"]
    assert status["reason"] in ("UnexpectedAdmissionError", "OutOfcpu")
    node.end("own")
    until(lambda: node.allowed("runc") == {"0-1"}, 10)
    until(lambda: node.allowed("late-gvisor") == {"0-1"}, 10)
    assert node.allowed("gvisor") == node.allowed("late") == {"0-1"}


def test_a_sandbox_with_its_own_kernel_has_processors_to_itself(node: RealNode) -> None:
    node.run("other")
    node.run("own", "1", handler="gvisor")
    assert (node.allowed("own"), node.allowed("other")) == ({"1"}, {"0"})
    node.end("own")
    until(lambda: node.allowed("other") == {"0-1"}, 10)


def test_no_process_of_an_exclusive_container_ever_sees_another_on_its_processors(node: RealNode) -> None:
    """The process prints its cpuset first, which must already be the exclusive one."""
    node.run("other", command="while true; do usleep 1000; done")
    node.run("own", "1", command=f"grep Cpus_allowed_list /proc/self/status; {SLEEP}")
    assert node.kubectl("logs", "own").split()[1] == "1"
    assert node.allowed("other") == {"0"}


@pytest.mark.parametrize("handler", ["runc", "gvisor"])
def test_kept_over_kill_9_of_the_agent_and_a_restart_of_the_container(node: RealNode, handler: str) -> None:
    node.run("other")
    node.run("own", "1", handler=handler)
    node.agent.kill()
    assert (node.allowed("own"), node.allowed("other")) == ({"1"}, {"0"})
    node.agent.start()
    assert (node.allowed("own"), node.allowed("other")) == ({"1"}, {"0"})
    node.restart("own")
    assert (node.allowed("own"), node.allowed("other")) == ({"1"}, {"0"})
    node.run("after-restart")
    assert node.allowed("after-restart") == {"0"}


def test_cpusets_that_another_program_changed_are_repaired(node: RealNode) -> None:
    node.run("other")
    node.run("own", "1")
    uid = node.get("other")["metadata"]["uid"]
    top = Path("/sys/fs/cgroup/cpuset") / node.agent.cgroup_root.strip("/")
    os.kill(node.agent.pid, signal.SIGSTOP)  # a running agent would revert the change before the assertion
    try:
        for group in sorted(top.glob(f"kubepods/**/pod{uid}/**/")):
            (group / "cpuset.cpus").write_text("0-1")
        assert node.allowed("other") == {"0-1"}
    finally:
        os.kill(node.agent.pid, signal.SIGCONT)
    until(lambda: node.allowed("other") == {"0"}, 10)


def test_the_policy_changes_both_ways(node: RealNode) -> None:
    node.run("other")
    node.run("own", "1")
    state = node.agent.folder / "root" / NAME
    node.agent.stop()
    node.settings(cpuManagerPolicy="none")
    node.agent.start()
    until(lambda: not state.exists(), 20)
    assert (node.allowed("own"), node.allowed("other")) == ({"0-1"}, {"0-1"})
    until(lambda: "cpu exclusive" not in node.capacity(), 20)
    assert any("policy is none now" in each for each in node.events("CPUManagerStateReset"))
    node.agent.stop()
    node.settings(cpuManagerPolicy="static")
    node.agent.start()
    until(lambda: any("policy is static now" in each for each in node.events("CPUManagerStateReset")), 20)
    assert (node.allowed("own"), node.allowed("other")) == ({"0-1"}, {"0-1"})
    node.restart("own")
    until(lambda: node.allowed("other") == {"0"}, 10)
    assert node.allowed("own") == {"1"}


@pytest.mark.parametrize("damage", ["checksum", "reserved"])
def test_a_damaged_state_file_refuses_the_start(node: RealNode, damage: str) -> None:
    node.run("own", "1")
    state = node.agent.folder / "root" / NAME
    kept = state.read_text()
    node.agent.stop()
    try:
        if damage == "checksum":
            state.write_text(kept.replace('"1"', '"0"', 1))
        else:
            node.settings(systemReserved={"cpu": "2"})
        done = subprocess.run(node.agent.command(), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 78
        last = done.stderr.splitlines()[-1]
        assert last.startswith(f"error: {state}: ")
        assert last.endswith("; drain the node, delete this file and start the agent again")
    finally:
        state.write_text(kept)
        node.settings(**STATIC)
        node.agent.start()
    assert node.allowed("own") == {"1"}


@pytest.mark.soak(minutes=1)
def test_killed_at_any_moment_while_processors_move(node: RealNode) -> None:
    """Wherever the kill hits the agent, no process of another pod runs on the exclusive processors of a running pod."""
    node.run("other")
    for pause in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8) if SOAK else (0.0, 0.1, 0.4):
        name = f"own-{round(pause * 100)}"
        node.create(name, "1")
        until(lambda: True, pause + 1, pause)
        node.agent.kill()
        _nobody_on_anothers(node, name)
        node.agent.start()
        until(lambda name=name: node.get(name)["status"].get("phase") == "Running", 60, 0.2)
        _nobody_on_anothers(node, name)
        assert (node.allowed(name), node.allowed("other")) == ({"1"}, {"0"})
        node.end(name)
        until(lambda: node.allowed("other") == {"0-1"}, 10)


def _nobody_on_anothers(node: RealNode, name: str) -> None:
    """Check the other pod's processors once a container has started, so once a second cgroup has processes."""
    if node.groups_in_use(name) > 1:
        assert node.allowed("other") == {"0"}


def test_an_unknown_flag_is_an_event(node: RealNode) -> None:
    assert set(node.events("UnknownFlag")) == {"--future-flag=1 is not known here and has no effect"}
    assert "flag=--future-flag=1" in node.agent.log.read_text()
    assert "Updated Node Allocatable limit across pods" in node.events("NodeAllocatableEnforced")
