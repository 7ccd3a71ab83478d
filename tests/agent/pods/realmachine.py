"""The pod loop on a real containerd and our own server in the same process, in real time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.model.allotment import PodAllotment
from tarmac.agent.model.podsettings import PodSettings
from tarmac.agent.pods.manager import PodManager
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists
from tarmac.apps.control_plane import Running, local_transport
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from tarmac.runtimes.cri.criruntime import CriRuntime
from tarmac.volumes.fake import FakeSources
from tests.agent.pods.machine import AGENT, NODE, Cgroups, PlainVolumes
from tests.client.backends import ADMIN, our_server
from tests.support.containerd import BUSYBOX, ContainerdNode, remove_cgroups


class RealCgroups(Cgroups):
    """Cgroups of real pods: the runtime creates them, and the test removes their folder."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self.root = root

    def path(self, allotment: PodAllotment) -> str:
        return f"{self.root}/pod{allotment.uid}"

    async def create(self, allotment: PodAllotment) -> str:
        await super().create(allotment)
        return self.path(allotment)

    async def remove(self, uid: str) -> None:
        await super().remove(uid)
        remove_cgroups(f"{self.root}/pod{uid}")


async def dial(pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
    """Dial a pod: the test's bridge is in the machine's own network."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(timeout):
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


class RealMachine:
    """A node with real containers."""

    def __init__(self, running: Running, node: ContainerdNode, root: Path) -> None:
        self.root = root
        self.user = Client(local_transport(running.server, ADMIN))
        self.agent = Client(local_transport(running.server, AGENT))
        self.pods = self.user.resource(PODS)
        self.runtime = CriRuntime(node.endpoint)
        self.volumes = PlainVolumes(root / "volumes")
        self.cgroups = RealCgroups(node.cgroup_root)
        self.manager: PodManager
        self._task: asyncio.Task[None] | None = None

    async def register(self) -> None:
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        status = {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
            "capacity": amounts,
            "allocatable": amounts,
        }
        metadata = {"name": NODE, "labels": {"kubernetes.io/os": "linux"}}
        made = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"addresses": status["addresses"]}}
        self.node = {**await self.user.resource(NODES).create(made), "status": status}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        with suppress(AlreadyExists):  # a controller created it before
            await self.user.resource(SERVICE_ACCOUNTS).create(account, namespace="default")
        label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        await self.user.resource(NAMESPACES).patch("default", label)

    async def start(self) -> None:
        informers = Informers(self.agent)
        recorder = Recorder(self.agent, "kubelet", NODE)
        self.manager = PodManager(
            client=self.agent,
            informers=informers,
            runtime=self.runtime,
            volumes=self.volumes,
            sources=FakeSources(),
            cgroups=self.cgroups,
            allocator=Allocator(AllocationSettings()),
            connect=dial,
            node=lambda: self.node,
            handlers=lambda: frozenset({"runc", "gvisor"}),
            recorder=recorder,
            settings=PodSettings(NODE, self.root, self.root / "logs", resolv_conf=None),
        )

        async def agent() -> None:
            async with asyncio.TaskGroup() as group:
                for part in (informers.run, recorder.run, self.manager.run):
                    group.create_task(part())

        self._task = asyncio.create_task(agent())
        await self.manager.ready()

    async def kill(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None

    async def clean(self) -> None:
        """Remove all pods."""
        for pod in (await self.pods.list("default")).items:
            await self.pods.delete(pod["metadata"]["name"], "default", grace=0)
        if self._task is None:
            await self.start()

        async def nothing() -> bool:
            return not await self.runtime.sandboxes() and not self.manager.pods()

        await self.until(nothing)
        await self.kill()
        await self.runtime.close()

    async def until(self, check: Callable[[], Coroutine[Any, Any, bool]], seconds: float = 40) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while not await check():
            assert asyncio.get_running_loop().time() < deadline, f"did not become so within {seconds} s"
            await asyncio.sleep(0.05)

    async def status(self, name: str) -> JsonObject:
        return (await self.pods.get(name, "default")).get("status") or {}

    async def phase(self, wanted: str, name: str) -> JsonObject:
        async def check() -> bool:
            return (await self.status(name)).get("phase") == wanted

        await self.until(check)
        return await self.status(name)


def pod(name: str, command: str = "trap 'exit 0' TERM; sleep 3600 & wait", **spec: Any) -> JsonObject:
    """Return a busybox pod that runs a shell command."""
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": NODE,
            "containers": [container],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 5,
            **spec,
        },
    }


@asynccontextmanager
async def real_machine(node: ContainerdNode, folder: Path) -> AsyncGenerator[RealMachine]:
    """Run a machine, and remove everything that it made."""
    async with our_server(folder / "server") as running:
        machine = RealMachine(running, node, folder / "agent")
        await machine.register()
        await machine.start()
        try:
            yield machine
        finally:
            await machine.clean()
