"""An agent's side of devices, on a folder and a file of the test's: registration and manager, as a node has them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.allocation.settings import AllocationSettings
from tarmac.agent.devices.checkpoint import DeviceCheckpoint
from tarmac.agent.devices.manager import DeviceManager
from tarmac.agent.devices.registration import Registration
from tarmac.agent.model.pod import AgentPod
from tarmac.base.clock import SystemClock
from tarmac.base.tasks import background
from tests.agent.devices.plugin import RESOURCE


class Node:
    """What a test sees. `restart` is a new agent after kill -9: only the file is left."""

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
        """An agent that serves the folder."""
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
        """Wait until the node has so many."""

        def found() -> bool:
            amounts = self.devices.amounts()
            return (amounts.allocatable.get(resource), amounts.capacity.get(resource)) == (
                allocatable,
                allocatable if capacity is None else capacity,
            )

        await until(found)

    def ids(self, uid: str, container: str = "main", resource: str = RESOURCE) -> list[str]:
        """The devices of a container, as its status shows them."""
        shown = self.devices.shown(uid).get(container, {}).get("allocatedResourcesStatus", [])
        return [each["resourceID"] for kind in shown if kind["name"] == resource for each in kind["resources"]]


@asynccontextmanager
async def a_node() -> AsyncGenerator[Node]:
    """A folder with a short path, since sockets are in it."""
    root = Path(tempfile.mkdtemp(prefix="tarmac-d-"))
    try:
        yield Node(root)
    finally:
        shutil.rmtree(root)


def a_pod(
    uid: str, *containers: tuple[str, int] | int, init: tuple[Any, ...] = (), resource: str = RESOURCE
) -> AgentPod:
    """A pod whose containers ask for so many devices; of one number the container is `main`."""

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
    """Wait for something that happens on another connection."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


async def settled(work: Awaitable[Any]) -> Any:
    """Its result, within a time that a test has."""
    async with asyncio.timeout(10):
        return await work
