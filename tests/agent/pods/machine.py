"""A machine in virtual time: the real API server, a fake runtime, and the pod loop of one node between them.

`play(story)` runs a story on it. The agent can be killed and started again: state of the runtime and of the disk
remains.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.model.allotment import PodAllotment
from tarmac.agent.model.podclasses import PodClasses
from tarmac.agent.model.poddependencies import PodCgroups
from tarmac.agent.model.podsettings import PodSettings
from tarmac.agent.pods.admission import AdmitCheck, ResizeCheck
from tarmac.agent.pods.manager import PodManager, no_notes
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.apps.simworld import SimWorld, world
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import EVENTS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from tarmac.runtimes.fake import FakeRuntime
from tarmac.runtimes.interface import Runtime
from tarmac.server.security.users import User
from tarmac.sim.faults.draws import FaultInjector
from tarmac.sim.faults.link import ServerLink
from tarmac.sim.loop import VirtualLoop, run
from tarmac.volumes.fake import FakeSources
from tarmac.volumes.interface import MountedVolume, VolumeError, VolumeUsage

NODE = "n1"
AGENT = User(f"system:node:{NODE}", groups=("system:nodes", "system:authenticated"))
IMAGE = "example.com/app:1"


@dataclass
class Cgroups:
    """Records existing cgroups, and whether their quota is set."""

    made: dict[str, bool] = field(default_factory=dict[str, bool])

    def path(self, allotment: PodAllotment) -> str:
        return f"/kubepods/pod{allotment.uid}"

    async def create(self, allotment: PodAllotment) -> str:
        self.made.setdefault(allotment.uid, False)
        return f"/kubepods/pod{allotment.uid}"

    async def update(self, allotment: PodAllotment) -> None:
        self.made[allotment.uid] = True

    async def remove(self, uid: str) -> None:
        self.made.pop(uid, None)


@dataclass
class PlainVolumes:
    """Every volume is a path; `missing` ones fail to mount."""

    root: Path
    mounted: set[str] = field(default_factory=set[str])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    changed: set[str] = field(default_factory=set[str])

    async def start(self) -> None:
        return None

    async def mount(self, pod: JsonObject) -> Mapping[str, MountedVolume]:
        for volume in pod["spec"].get("volumes") or ():
            if volume["name"] in self.missing:
                raise VolumeError(volume["name"], self.missing[volume["name"]])
        self.mounted.add(pod["metadata"]["uid"])
        names = [each["name"] for each in pod["spec"].get("volumes") or ()]
        return {name: MountedVolume(name, f"{self.root}/{name}") for name in names}

    async def refresh(self, pod: JsonObject) -> Set[str]:
        return self.changed

    async def unmount(self, pod_uid: str) -> None:
        self.mounted.discard(pod_uid)

    async def sweep(self, live: Set[str]) -> Sequence[str]:
        return ()

    async def subpath(self, volume: MountedVolume, path: str, pod_uid: str, container: str, index: int) -> str:
        return f"{volume.path}/{path}"

    async def usage(self, pod_uid: str) -> Mapping[str, VolumeUsage]:
        return {}

    async def disks(self) -> Sequence[str]:
        return ()

    async def remove_disk(self, name: str) -> None:
        return None

    async def purge(self) -> None:
        return None


async def no_network(pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
    raise ConnectionRefusedError(111, "refused")


class Classing(Protocol):
    """QoS classes on a fake machine."""

    def begin(self, machine: Machine, recorder: Recorder) -> PodClasses | None:
        """Return the classes of a new agent process, and optionally replace the machine's allocator."""
        ...

    async def run(self, machine: Machine) -> None:
        """Run beside the manager."""
        ...


class Machine:
    """The machine as stories use it."""

    def __init__(self, made: SimWorld, root: Path) -> None:
        self.world = made
        self.root = root
        self.user: Client = made.reliable()
        self.pods = self.user.resource(PODS)
        self.runtime = FakeRuntime(made.clock)
        self.runtime.add_image(IMAGE)
        self.driver: Runtime = self.runtime
        self.handlers = frozenset({"runc", "gvisor"})
        self.sources = FakeSources()
        self.volumes = PlainVolumes(root / "volumes")
        self.cgroups = Cgroups()
        self.groups: PodCgroups = self.cgroups
        self.allocator = Allocator(AllocationSettings())
        self.settings = PodSettings(
            NODE,
            root,
            root / "logs",
            manifest_dir=root / "manifests",
            resolv_conf=None,
            cluster_dns=("169.254.20.10",),
        )
        self.classing: Classing | None = None
        self.connect = no_network
        self.notes: Callable[[str], Mapping[str, str]] = no_notes
        self.admit_checks: list[AdmitCheck] = []
        self.resize_checks: list[ResizeCheck] = []
        self.manager: PodManager
        self.node: JsonObject = {}
        self._agent: asyncio.Task[None] | None = None
        self._link: ServerLink
        self._server_away = False
        self._runs = 0

    # --- the agent --------------------------------------------------------------------------------------------------

    async def start(self, *, server: bool = True) -> None:
        """Start an agent process."""
        self._server_away = self._server_away or not server
        self._runs += 1
        self._link = self.world.link(AGENT)
        self._link.mute(self._server_away)
        client = self.world.client("agent", self._link, self._runs)
        informers = Informers(client)
        recorder = Recorder(client, "kubelet", NODE)
        classes = self.classing.begin(self, recorder) if self.classing else None
        self.manager = PodManager(
            client=client,
            informers=informers,
            runtime=self.driver,
            volumes=self.volumes,
            sources=self.sources,
            cgroups=self.groups,
            allocator=self.allocator,
            classes=classes,
            connect=self.connect,
            node=lambda: self.node,
            handlers=lambda: self.handlers,
            recorder=recorder,
            settings=self.settings,
            notes=self.notes,
            admit_checks=self.admit_checks,
            resize_checks=self.resize_checks,
        )

        async def agent() -> None:
            async with asyncio.TaskGroup() as group:
                for part in (informers.run, recorder.run, self.manager.run):
                    group.create_task(part())
                if self.classing:
                    group.create_task(self.classing.run(self))

        self._agent = asyncio.create_task(agent())
        await self.wait(0.1)

    async def kill(self) -> None:
        """Kill the agent process in the middle of its work."""
        assert self._agent is not None
        self._link.sever()
        self._agent.cancel()
        await asyncio.wait([self._agent])
        self._agent = None

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    def unplug_server(self) -> None:
        """Break the agent's connections and refuse new ones."""
        self._server_away = True
        self._link.mute(True)

    def plug_server_in(self) -> None:
        self._server_away = False
        self._link.mute(False)

    # --- pods -------------------------------------------------------------------------------------------------------

    async def create(self, name: str = "web", **spec: Any) -> JsonObject:
        return await self.pods.create(pod(name, **spec))

    async def allow_everything(self) -> None:
        """Allow pods of any security standard in the namespace."""
        label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        await self.user.resource(NAMESPACES).patch("default", label)

    async def get(self, name: str = "web") -> JsonObject:
        return await self.pods.get(name, "default")

    async def status(self, name: str = "web") -> JsonObject:
        return (await self.get(name)).get("status") or {}

    async def phase(self, wanted: str, name: str = "web", seconds: float = 60) -> JsonObject:
        """Wait for a phase; return the status."""

        async def check() -> bool:
            return (await self.status(name)).get("phase") == wanted

        await self.until(check, seconds)
        return await self.status(name)

    async def ready(self, name: str = "web", wanted: str = "True", seconds: float = 60) -> JsonObject:
        async def check() -> bool:
            return condition(await self.status(name), "Ready").get("status") == wanted

        await self.until(check, seconds)
        return await self.status(name)

    async def waits(self, reason: str, name: str = "web", container: str = "main", seconds: float = 60) -> JsonObject:
        """Wait until a container waits for this reason; return its waiting state."""

        async def check() -> bool:
            state = container_status(await self.status(name), container).get("state") or {}
            return state.get("waiting", {}).get("reason") == reason

        await self.until(check, seconds)
        return container_status(await self.status(name), container)["state"]["waiting"]

    async def gone(self, name: str = "web", seconds: float = 120) -> None:
        async def check() -> bool:
            try:
                await self.get(name)
            except NotFound:
                return True
            return False

        await self.until(check, seconds)

    async def running(self) -> list[str]:
        """Return the names of running containers."""
        return sorted(each.name for each in await self.runtime.containers() if each.state == "running")

    async def id(self, container: str = "main") -> str:
        """Return the id of the newest container of this name."""
        found = [each for each in await self.runtime.containers() if each.name == container]
        return max(found, key=lambda each: (each.created_at, each.attempt)).id

    async def events(self, name: str = "web") -> list[tuple[str, str]]:
        """Return reasons and messages of a pod's events, oldest first."""
        found = [
            each
            for each in (await self.user.resource(EVENTS).list("default")).items
            if each["involvedObject"]["name"] == name
        ]
        found.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [(each["reason"], each["message"]) for each in found]

    async def remember_containers(self) -> dict[str, str]:
        """Return the names of all containers by id, to compare later."""
        return {each.id: each.name for each in await self.runtime.containers()}

    def calls(self, method: str) -> int:
        return sum(1 for name, _ in self.runtime.calls if name == method)

    async def wait(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)

    async def until(self, check: Callable[[], Coroutine[Any, Any, bool]], seconds: float = 60) -> None:
        for _ in range(int(seconds * 10)):
            if await check():
                return
            await self.wait(0.1)
        raise AssertionError(f"did not become so within {seconds} s")

    async def register(self, **allocatable: str) -> None:
        """Create the Node, as the rest of the agent would."""
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
        status = {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": NODE}],
            "capacity": amounts,
            "allocatable": amounts,
        }
        labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}
        made: JsonObject = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}}
        made["status"] = {"addresses": status["addresses"]}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await self.user.resource(SERVICE_ACCOUNTS).create(account, namespace="default")
        node = await self.user.resource(NODES).create(made)
        self.node = {**node, "status": status}


def pod(name: str = "web", **spec: Any) -> JsonObject:
    """Return a Pod bound to the node; `container` is merged into its one container, unless `containers` are given."""
    metadata = spec.pop("metadata", {})
    container = {"name": "main", "image": IMAGE, **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {
            "nodeName": NODE,
            "containers": [container],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 30,
            **spec,
        },
    }


def container(name: str) -> JsonObject:
    """Return a container for a pod's spec."""
    return {"name": name, "image": IMAGE}


def container_status(status: JsonObject, name: str = "main") -> JsonObject:
    lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    every = [each for field in lists for each in status.get(field) or ()]
    return next((each for each in every if each["name"] == name), {})


def condition(status: JsonObject, type: str) -> JsonObject:
    return next((each for each in status.get("conditions") or () if each["type"] == type), {})


@asynccontextmanager
async def _machine(loop: VirtualLoop, root: Path) -> AsyncGenerator[Machine]:
    luck = FaultInjector(Randomness(1))
    luck.stop()
    async with world(loop, 1, luck) as made:
        machine = Machine(made, root)
        await machine.register()
        yield machine
        if machine._agent is not None:
            await machine.kill()
        await machine.runtime.close()


def play(
    story: Callable[[Machine], Coroutine[Any, Any, None]], *, start: bool = True, root: Path | None = None
) -> None:
    """Run a story to its end. The agent's files are below `root`, or in a temporary folder."""

    async def main(loop: VirtualLoop) -> None:
        with tempfile.TemporaryDirectory(prefix="tarmac-pods-", dir=root) as folder:
            async with _machine(loop, Path(folder)) as machine:
                if start:
                    await machine.start()
                await story(machine)

    run(main)
