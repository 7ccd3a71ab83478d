"""Disk usage of a pod is bounded on a real node: its layer, its volumes, its log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import BUSYBOX, ContainerdNode
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]
NODE = "room-0"


@pytest.fixture(scope="module")
def node(
    containerd_node: ContainerdNode, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Kubectl, AgentProcess]]:
    folder = tmp_path_factory.mktemp("room")
    settings = {"containerLogMaxSize": "4Ki", "containerLogMaxFiles": 3, "containerLogMonitorInterval": "3s"}
    with TarmacProcess(folder / "data") as server:
        agent = AgentProcess.for_server(folder / NODE, NODE, containerd_node, server, **settings)
        kubectl = Kubectl(server.kubeconfig, folder)
        with agent:
            yield kubectl, agent
            kubectl.run("delete", "pods", "--all", "--force", "--grace-period=0")
            until(lambda: not agent.pods)


def pod(name: str, command: str, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", command]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": NODE,
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            "containers": [{**container, **more.pop("container", {})}],
            **more,
        },
    }


def status(kubectl: Kubectl, name: str) -> dict[str, Any]:
    return json.loads(kubectl("get", "pod", name, "-o", "json"))["status"]


def test_pods_past_their_limits_on_the_nodes_disk_are_evicted(node: tuple[Kubectl, AgentProcess]) -> None:
    kubectl, _ = node
    write = "dd if=/dev/zero of={}/big bs=1M count=8 2>/dev/null; sleep 3600"
    limited = {"resources": {"limits": {"ephemeral-storage": "2Mi"}}}
    mounts = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    scratch = {"name": "scratch", "emptyDir": {"sizeLimit": "2Mi"}}
    pods = [
        pod("layer", write.format(""), container=limited),
        pod("volume", write.format("/scratch"), container=mounts, volumes=[scratch]),
        pod("modest", "sleep 3600", container=limited),
    ]
    for each in pods:
        kubectl("create", "-f", "-", stdin=json.dumps(each))
    until(lambda: all(status(kubectl, name)["phase"] == "Failed" for name in ("layer", "volume")), 120, 1.0)
    found = {name: status(kubectl, name) for name in ("layer", "volume", "modest")}
    assert {found[name]["reason"] for name in ("layer", "volume")} == {"Evicted"}
    assert found["layer"]["message"] == "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "
    assert found["volume"]["message"] == 'Usage of EmptyDir volume "scratch" exceeds the limit "2Mi". '
    assert found["modest"]["phase"] == "Running"


def test_logs_are_rotated_and_no_line_is_lost(node: tuple[Kubectl, AgentProcess]) -> None:
    kubectl, agent = node
    count = "i=0; while true; do echo line-$i; i=$((i+1)); usleep 10000; done"
    kubectl("create", "-f", "-", stdin=json.dumps(pod("talker", count)))

    def files() -> list[Path]:
        return sorted(agent.logs.glob("default_talker_*/main/*"))

    until(lambda: any(file.name.endswith(".gz") for file in files()), 60, 0.5)
    until(lambda: len(files()) == 3, 30, 0.5)
    lines = kubectl("logs", "talker").split()
    numbers = [int(line.removeprefix("line-")) for line in lines]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[-1] > 100
