"""A real agent that lends processors out: what it says in status, event, log and metrics, and that it takes it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tarmac.base.quantity import Quantity
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import ContainerdNode
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.serial, pytest.mark.timeout(180)]
NAME = "lending-0"


def status(kubectl: Kubectl) -> dict[str, Any]:
    return json.loads(kubectl("get", "node", NAME, "-o", "json"))["status"]


def figures(kubectl: Kubectl) -> dict[str, float]:
    """The steps of cpu, by name."""
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
            for line in ("reserved pool=systemReserved resource=cpu", "all pods together are limited"):
                assert any("cpu_oversubscription=1.500" in each for each in log.splitlines() if line in each), line
            steps = figures(kubectl)
            assert (steps["capacity"], steps["allocatable"]) == (there / 1000, there / 1000 + 1)
            assert (steps["reserved_system"], steps["reserved_kube"], steps["oversubscription"]) == (0.5, 0, 1.5)
            assert (steps["enforced"], steps["committed"]) == (there / 1000 - 0.5, 0)
        with make(tmp_path / NAME, NAME, containerd_node, server, **settings):
            until(lambda: "cpu oversubscription" not in status(kubectl)["capacity"], 20)
            assert Quantity.parse(status(kubectl)["allocatable"]["cpu"]).milli() == there - 500
            assert len(told(kubectl)) == 1
