"""A real agent that lends processors or assigns exclusive ones: every step is in its reports.

Status, event, log, metrics and `tarmac node report` show the same ledger.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tarmac.base.quantity import Quantity
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import BUSYBOX, ContainerdNode
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]
NAME = "lending-0"


def status(kubectl: Kubectl) -> dict[str, Any]:
    return json.loads(kubectl("get", "node", NAME, "-o", "json"))["status"]


def counters(kubectl: Kubectl) -> dict[str, float]:
    """Return the steps of cpu, by name."""
    text = kubectl("get", "--raw", f"/api/v1/nodes/{NAME}/proxy/metrics")
    lines = (line.rpartition(" ") for line in text.splitlines() if 'resource="cpu"' in line)
    return {name.split('step="')[1].removesuffix('"}'): float(value) for name, _, value in lines}


def told(kubectl: Kubectl) -> list[str]:
    found = json.loads(kubectl("get", "events", "-A", "-o", "json", "--field-selector=reason=CPUOverSubscription"))
    return [f"{each['type']}: {each['message']}" for each in found["items"]]


def test_a_node_lends_processors_and_takes_them_back(containerd_node: ContainerdNode, tmp_path: Path) -> None:
    flag = "--cpu-over-subscription-capacity=1.5"
    settings = {"systemReserved": {"cpu": "500m"}, "evictionHard": {}}
    with TarmacProcess(tmp_path / "data") as server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        make = AgentProcess.for_server
        with make(tmp_path / NAME, NAME, containerd_node, server, flag, **settings) as agent:
            found = status(kubectl)
            there = Quantity.parse(found["capacity"]["cpu"]).milli()
            assert found["capacity"]["cpu oversubscription"] == "1.500"
            assert Quantity.parse(found["allocatable"]["cpu"]).milli() == there + 1000
            assert {"resource": "cpu", "for": "system", "amount": "500m", "source": "file"} in found["reservations"]
            until(lambda: bool(told(kubectl)), 20)
            [event] = told(kubectl)
            assert event.startswith("Warning: capacity ")
            assert "reserved 500m, oversubscription 1.500, allocatable " in event
            log = agent.log.read_text()
            for line in ("reserved pool=systemReserved resource=cpu", "node allocatable limits applied"):
                assert any("cpu_oversubscription=1.500" in each for each in log.splitlines() if line in each), line
            steps = counters(kubectl)
            assert (steps["capacity"], steps["allocatable"]) == (there / 1000, there / 1000 + 1)
            assert (steps["reserved_system"], steps["reserved_kube"], steps["oversubscription"]) == (0.5, 0, 1.5)
            assert (steps["enforced"], steps["committed"]) == (there / 1000 - 0.5, 0)
        with make(tmp_path / NAME, NAME, containerd_node, server, **settings):
            until(lambda: "cpu oversubscription" not in status(kubectl)["capacity"], 20)
            assert Quantity.parse(status(kubectl)["allocatable"]["cpu"]).milli() == there - 500
            assert len(told(kubectl)) == 1


def report(server: TarmacProcess, *words: str) -> str:
    """Return the output of `tarmac node report`."""
    program = [sys.executable, "-m", "tarmac.apps.main", "node", "report", "--kubeconfig", str(server.kubeconfig)]
    return subprocess.run([*program, *words], capture_output=True, text=True, check=True, timeout=60).stdout


def test_processors_that_a_container_has_to_itself_are_in_every_answer(
    containerd_node: ContainerdNode, tmp_path: Path
) -> None:
    amounts = {"cpu": "1", "memory": "32Mi"}
    container = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "3600"]}
    spec = {"nodeName": NAME, "terminationGracePeriodSeconds": 0, "runtimeClassName": "runc"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "alone", "namespace": "default"},
        "spec": {**spec, "containers": [{**container, "resources": {"limits": amounts}}]},
    }
    settings = {"systemReserved": {"cpu": "500m"}, "cpuManagerPolicy": "static"}
    with TarmacProcess(tmp_path / "data") as server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        with AgentProcess.for_server(tmp_path / NAME, NAME, containerd_node, server, **settings) as agent:
            there = int(status(kubectl)["capacity"]["cpu"])
            if there < 2:
                pytest.skip("NOT RUN: a machine with one processor has none to give away")
            kubectl("create", "-f", "-", stdin=json.dumps(pod))
            until(lambda: kubectl("get", "pod", "alone", "-o", "jsonpath={.status.phase}") == "Running", 60)
            steps = counters(kubectl)
            assert (steps["exclusive"], steps["exclusive_committed"], steps["committed"]) == (there - 1, 1, 1)
            given = json.loads(kubectl("get", "pod", "alone", "-o", "json"))["metadata"]["annotations"][
                "node.tarmac/cpus"
            ]
            [found] = json.loads(report(server, NAME, "-o", "json"))["nodes"]
            assert found["resources"][0]["exclusive"] == {"capacity": str(there - 1), "committed": "1"}
            assert found["pods"][0]["cpus"] == json.loads(given)
            assert f" 1/{there - 1} " in report(server)
            kubectl("delete", "pod", "alone")
            until(lambda: not agent.pods and counters(kubectl)["exclusive_committed"] == 0, 60)
