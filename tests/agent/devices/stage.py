"""The agent's side of device plugins on a temporary folder and checkpoint: registration and manager, as on a node."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.devices.checkpoint import DeviceCheckpoint
from tarmac.agent.devices.devicemanager import DeviceManager
from tarmac.agent.devices.registration import Registration
from tarmac.agent.model.pod import AgentPod
from tarmac.base.clock import SystemClock
from tarmac.base.tasks import background
from tests.agent.devices.plugin import RESOURCE


class Node:
    """The agent's side and its events. A new `agent` models one after kill -9: only the checkpoint survives."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "d"
        self.events: list[tuple[str, str, str]] = []
        self.woken: list[str] = []
        self.devices: DeviceManager
        self.allocator: Allocator
        self.registration: Registration

    @asynccontextmanager
    async def agent(self) -> AsyncGenerator[None]:
        """Run an agent that serves the folder."""
        self.devices = DeviceManager(
            DeviceCheckpoint(self.root),
            SystemClock(),
            lambda *event: self.events.append(event),
            lambda: None,
            self.woken.append,
        )
        self.allocator = Allocator(AllocationSettings(), asked=[self.devices])
        self.registration = Registration(self.folder, self.devices.register)
        socket = self.folder / "kubelet.sock"
        socket.unlink(missing_ok=True)
        async with background(self.registration.run(), "registration"):
            await until(socket.exists)
            try:
                yield
            finally:
                await self.devices.close()

    async def has(self, allocatable: int, capacity: int | None = None, resource: str = RESOURCE) -> None:
        """Wait until the node reports these amounts."""

        def found() -> bool:
            amounts = self.devices.amounts()
            return (amounts.allocatable.get(resource), amounts.capacity.get(resource)) == (
                allocatable,
                allocatable if capacity is None else capacity,
            )

        await until(found)

    def ids(self, uid: str, container: str = "main", resource: str = RESOURCE) -> list[str]:
        """Return the devices of a container, as its status shows them."""
        shown = self.devices.shown(uid).get(container, {}).get("allocatedResourcesStatus", [])
        return [each["resourceID"] for kind in shown if kind["name"] == resource for each in kind["resources"]]


@asynccontextmanager
async def a_node() -> AsyncGenerator[Node]:
    """Make a node in a folder with a short path, since socket paths are limited."""
    root = Path(tempfile.mkdtemp(prefix="tarmac-d-"))
    try:
        yield Node(root)
    finally:
        shutil.rmtree(root)


def a_pod(
    uid: str, *containers: tuple[str, int] | int, init: tuple[Any, ...] = (), resource: str = RESOURCE
) -> AgentPod:
    """Return a pod whose containers request devices; a bare number stands for the container `main`."""

    def spec(name: str, number: int, **more: str) -> dict[str, Any]:
        amounts = {"cpu": "1", resource: str(number)} if number else {"cpu": "1"}
        return {"name": name, "resources": {"limits": amounts, "requests": amounts}, **more}

    named = [each if isinstance(each, tuple) else ("main", each) for each in containers]
    first = [spec(name, number, **({"restartPolicy": "Always"} if rest else {})) for name, number, *rest in init]
    return AgentPod(
        {
            "metadata": {"name": uid, "namespace": "n", "uid": uid},
            "spec": {"initContainers": first, "containers": [spec(*each) for each in named]},
        }
    )


async def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for an effect on another connection."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


async def settled(work: Awaitable[Any]) -> Any:
    """Return its result, or fail after ten seconds."""
    async with asyncio.timeout(10):
        return await work
