"""Volumes of a pod as its user sees them, with a real server, agent and containerd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import CONFIG_MAPS, EVENTS, PODS, VOLUME_CLAIMS
from tarmac.runtimes.cri import CriRuntime
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux.loops import loops
from tarmac.volumes.linux.medium import LinuxMedium
from tarmac.volumes.linux.mountinfo import mounts
from tests.support.agent_process import AgentProcess
from tests.support.containerd import BUSYBOX, ContainerdNode
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(180)]
DISK = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "tarmac-local",
    "resources": {"requests": {"storage": "32Mi"}},
}


class Node:
    """The node and its user."""

    def __init__(self, agent: AgentProcess, containerd: ContainerdNode, server: TarmacProcess) -> None:
        self.agent = agent
        self.client = Client(HttpTransport(load(str(server.kubeconfig)).http))
        self.root = str((agent.folder / "root").resolve())
        self._runtime = CriRuntime(containerd.endpoint)

    async def create(self, target: Target[JsonObject], name: str, **fields: Any) -> JsonObject:
        kind = {"apiVersion": target.api_version, "kind": target.kind}
        metadata = {"name": name, "namespace": "default"}
        return await self.client.resource(target).create({**kind, "metadata": metadata, **fields})

    async def until(self, true: Callable[[], Awaitable[Any]], what: str, seconds: float = 60) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not await true():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pytest.fail(f"not {what} within {seconds} s; the agent says:\n{self.agent.log.read_text()[-4000:]}")

    async def running(self, name: str) -> str:
        """Return the id of the pod's only container, once it is ready."""
        found: list[str] = []

        async def ready() -> bool:
            status = (await self.client.resource(PODS).get(name, "default")).get("status") or {}
            found[:] = [
                each["containerID"].rpartition("/")[2]
                for each in status.get("containerStatuses") or ()
                if each["ready"] and each.get("containerID")
            ]
            return bool(found)

        await self.until(ready, f"{name} running")
        return found[0]

    async def says(self, container: str, script: str) -> str:
        result = await self._runtime.exec(container, ("sh", "-c", script), 20)
        return (result.stdout + result.stderr).decode().strip()

    async def told(self, reason: str, text: str) -> bool:
        events = (await self.client.resource(EVENTS).list("default")).items
        return any(each["reason"] == reason and text in each["message"] for each in events)

    async def gone(self, target: Target[JsonObject], name: str) -> bool:
        try:
            await self.client.resource(target).get(name, "default")
        except NotFound:
            return True
        return False

    async def close(self) -> None:
        await self._runtime.close()
        await self.client.close()


@pytest.fixture
async def node(tmp_path: Path, containerd_node: ContainerdNode) -> AsyncGenerator[Node]:
    folder = tmp_path / "agent"
    with TarmacProcess(tmp_path / "server") as server:
        try:
            with AgentProcess.for_server(folder, "volumes-node", containerd_node, server) as agent:
                made = Node(agent, containerd_node, server)
                yield made
                await made.close()
        finally:
            LinuxMedium(VolumeLayout(str(folder / "root"))).close()


def pod() -> JsonObject:
    scratch = {"ephemeral": {"volumeClaimTemplate": {"spec": DISK}}}
    volumes = [
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", **scratch},
    ]
    places = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    part = {"name": "data", "mountPath": "/part", "subPathExpr": "logs/$(POD)"}
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"],
        "env": env,
        "volumeMounts": [*places, part],
    }
    return {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 2}


async def test_volumes_from_claim_to_deletion(node: Node) -> None:
    await node.create(VOLUME_CLAIMS, "data", spec=DISK)
    await node.create(PODS, "web", spec=pod())
    await node.until(lambda: node.told("FailedMount", 'configmap "settings" not found'), "told what is missing")
    await node.create(CONFIG_MAPS, "settings", data={"colour": "red"})
    main = await node.running("web")
    assert await node.says(main, "cat /config/colour") == "red"
    assert await node.says(main, "ls /data /scratch") == "/data:\nlogs\nlost+found\n\n/scratch:\nlost+found"
    assert await node.says(main, "echo kept > /part/file; cat /data/logs/web/file") == "kept"
    assert (await node.says(main, "cat /var/run/secrets/kubernetes.io/serviceaccount/token")).count(".") == 2

    node.agent.kill()
    await node.client.resource(CONFIG_MAPS).patch("settings", {"data": {"colour": "blue"}}, "default")
    node.agent.start()

    async def blue() -> bool:
        return await node.says(main, "cat /config/colour") == "blue"

    await node.until(blue, "blue", 120)
    assert await node.running("web") == main
    assert await node.says(main, "cat /part/file") == "kept"

    await node.client.resource(PODS).delete("web", "default")
    await node.until(lambda: node.gone(PODS, "web"), "deleted")
    await node.until(lambda: _nothing_mounted(node.root), "unmounted")
    await node.until(lambda: node.gone(VOLUME_CLAIMS, "web-scratch"), "the pod's own claim gone")
    assert (await node.client.resource(VOLUME_CLAIMS).get("data", "default"))["status"]["phase"] == "Bound"


async def _nothing_mounted(root: str) -> bool:
    return [each.path for each in mounts(root)] == [root] and not loops(f"{root}/disks")
