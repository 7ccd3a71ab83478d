"""Classes on a kube-apiserver, which lacks the fields: by annotation, with a node's rights only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.base.randomness import Randomness
from tests.agent.qosclasses.test_real_blockio import GATE, SLOW, classes_file
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import BUSYBOX, ContainerdNode
from tests.support.kubectl import Kubectl
from tests.support.peer import Peer

pytestmark = [pytest.mark.root, pytest.mark.peers, pytest.mark.timeout(180)]
BLKIO = Path("/sys/fs/cgroup/blkio")


@pytest.fixture
def joined(peer: Peer, containerd_node: ContainerdNode, tmp_path: Path) -> Iterator[tuple[Kubectl, AgentProcess]]:
    name = f"node-{Randomness().suffix(6)}"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(peer.node_kubeconfig(name))
    offered = {"types": {"blockio": {"configFile": str(classes_file(tmp_path))}}}
    agent = AgentProcess(
        tmp_path / name,
        name,
        containerd_node,
        kubeconfig,
        "--network=auto",
        "--node-ip=127.0.0.1",
        GATE,
        classResources=offered,
        nodeStatusUpdateFrequency="1s",
    )
    kubectl = Kubectl(peer.kubeconfig, tmp_path)
    try:
        with agent:
            yield kubectl, agent
            kubectl.run("delete", "pods", "--all", "--force", "--grace-period=0")
            until(lambda: not agent.pods)
    finally:
        print(agent.log.read_text()[-4000:])


def test_offered_classes_and_classes_in_effect_are_annotations(joined: tuple[Kubectl, AgentProcess]) -> None:
    kubectl, agent = joined

    def annotations(kind: str, name: str) -> dict[str, str]:
        return json.loads(kubectl("get", kind, name, "-o", "json"))["metadata"].get("annotations") or {}

    until(lambda: "node.tarmac/resources" in annotations("node", agent.name), 30, 0.2)
    said = json.loads(annotations("node", agent.name)["node.tarmac/resources"])
    assert said["containerClassResources"] == [{"name": "blockio", "classes": [{"name": "fast"}, {"name": "slow"}]}]
    container = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "3600"]}
    asked = {"blockio.resources.alpha.kubernetes.io/default": "slow"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": asked},
        "spec": {"nodeName": agent.name, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(pod))
    until(lambda: "node.tarmac/classes" in annotations("pod", "web"), 60, 0.2)
    found = json.loads(annotations("pod", "web")["node.tarmac/classes"])
    assert found == {"pod": {}, "containers": {"main": {"blockio": "slow"}}}
    files = list(BLKIO.glob(f"{agent.cgroup_root[1:]}/**/pod*/*/blkio.throttle.write_bps_device"))
    assert any(file.read_text().split()[1:] == [str(SLOW)] for file in files)
    wrong = {**pod, "metadata": {"name": "wrong", "annotations": {next(iter(asked)): "medium"}}}
    kubectl("create", "-f", "-", stdin=json.dumps(wrong))
    until(lambda: kubectl("get", "pod", "wrong", "-o", "jsonpath={.status.reason}") == "ClassUnavailable", 20, 0.2)
