"""An agent without a runtime waits and is not ready; a removed one leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tarmac.agent.cgroups.mounted import mounted
from tarmac.base.randomness import Randomness
from tarmac.runtimes.cri.criruntime import CriRuntime
from tarmac.volumes.linux.mountinfo import mounts
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import BUSYBOX, ContainerdNode
from tests.support.kubectl import Kubectl
from tests.support.readable import readable
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


def removed(agent: AgentProcess) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*agent.command(), "--remove"], capture_output=True, text=True, timeout=90)


async def sandboxes(node: ContainerdNode) -> set[str]:
    """Return the uids of pods with sandboxes or containers."""
    runtime = CriRuntime(node.endpoint)
    try:
        return {each.pod.uid for each in await runtime.sandboxes()}
    finally:
        await runtime.close()


def test_without_a_runtime_it_says_one_sentence_and_is_not_ready(
    containerd_node: ContainerdNode, tmp_path: Path
) -> None:
    name = f"node-{Randomness().suffix(6)}"
    nowhere = f"--container-runtime-endpoint=unix://{tmp_path}/nothing.sock"
    with TarmacProcess(tmp_path / "data") as server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        agent = AgentProcess.for_server(tmp_path / name, name, containerd_node, server, nowhere)
        try:
            agent.launch()
            until(lambda: "KubeletNotReady" in kubectl.run("get", "node", name, "-o", "json").out)
            until(lambda: "no container runtime answers" in agent.log.read_text())
            assert agent.stdout is not None
            assert not readable(agent.stdout, 5), "it reported that it is ready"
        finally:
            agent.stop()
            assert removed(agent).returncode == 0
    said = agent.log.read_text()
    assert said.count("no container runtime answers") == 1
    assert "Traceback" not in said


def test_an_agent_that_leaves_removes_everything_it_created(containerd_node: ContainerdNode, tmp_path: Path) -> None:
    name = f"node-{Randomness().suffix(6)}"
    with TarmacProcess(tmp_path / "data") as server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        kubectl("create", "configmap", "words", "--from-literal=a=1")
        agent = AgentProcess.for_server(tmp_path / name, name, containerd_node, server)
        with agent:
            spec = {
                "nodeName": name,
                "containers": [
                    {
                        "name": "main",
                        "image": BUSYBOX,
                        "command": ["sleep", "3600"],
                        "volumeMounts": [{"name": "memory", "mountPath": "/m"}, {"name": "words", "mountPath": "/w"}],
                    }
                ],
                "volumes": [
                    {"name": "memory", "emptyDir": {"medium": "Memory"}},
                    {"name": "words", "configMap": {"name": "words"}},
                ],
            }
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
            kubectl("create", "-f", "-", stdin=json.dumps(pod))
            until(lambda: '"phase": "Running"' in kubectl.run("get", "pod", "web", "-o", "json").out, 60)
            uid = kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}")
            refused = removed(agent)
            assert refused.returncode == 1
            assert f"process {agent.pid}, an agent with this root directory: stop it first" in refused.stderr
            agent.kill()
            assert uid in str(list(agent.logs.iterdir()))
            done = removed(agent)
            assert done.returncode == 0, done.stderr
            assert not (agent.folder / "root").exists()
            assert list(agent.logs.iterdir()) == []
            assert list(mounts(str(agent.folder))) == []
            assert not mounted().exists(f"{agent.cgroup_root}/kubepods")
            assert uid not in asyncio.run(sandboxes(containerd_node))
            assert removed(agent).returncode == 0, "a second removal does nothing"
            agent.start()  # a new agent starts from scratch
            agent.stop()
            assert removed(agent).returncode == 0
