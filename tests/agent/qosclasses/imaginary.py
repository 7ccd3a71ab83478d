"""A fake machine in virtual time whose kernel limits block I/O: limits of cgroups in memory.

`Containerd` behaves as containerd with runc does on that kernel: it limits a container by its specification at the
start, and writes those limits again with every later update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.cgroups.hierarchy import BlockIo, Hierarchy
from tarmac.agent.config.kubelet import KubeletClassResources, OfferedClass, OfferedClassType
from tarmac.agent.model.podclasses import PodClasses
from tarmac.agent.qosclasses.classdiscovery import ClassDiscovery
from tarmac.agent.qosclasses.classevents import ClassEvents
from tarmac.agent.qosclasses.keeper import ClassKeeper
from tarmac.agent.qosclasses.kernel import KernelClasses
from tarmac.agent.qosclasses.resctrl import Resctrl
from tarmac.agent.qosclasses.resource import ClassResource
from tarmac.agent.qosclasses.runtimefiles import RuntimeFiles
from tarmac.client.eventrecorder import Recorder
from tarmac.decide.qosclasses.blockio import NO_CLASS, BlockioParameters
from tarmac.runtimes.fake import FakeRuntime
from tarmac.runtimes.interface import Resources, RuntimeStatus
from tarmac.runtimes.routed import RoutedRuntime
from tests.agent.pods.machine import NODE, Machine

SLOW, FAST = BlockioParameters(weight=20), BlockioParameters(weight=900)
FILE = "Classes: {slow: [{Weight: 20}], fast: [{Weight: 900}]}\n"
PERIOD = 10.0


@dataclass
class Kernel:
    """Implements `BlockIo` and the part of `Hierarchy` that classes need."""

    groups: dict[str, BlockioParameters] = field(default_factory=dict[str, BlockioParameters])
    inside: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    writes: int = 0

    def has(self, path: str, parameters: BlockioParameters) -> bool:
        return self.groups.get(path, NO_CLASS) == parameters

    def put(self, path: str, parameters: BlockioParameters) -> None:
        if not self.has(path, parameters):
            self.writes += 1
            self.groups[path] = parameters

    def block_io(self) -> BlockIo:
        return self

    def occupied(self, path: str) -> bool:
        return bool(self.inside.get(path))

    def inhabitants(self, path: str) -> set[int]:
        return self.inside.get(path, set())


class Containerd(FakeRuntime):
    """A containerd with the containers' specifications, which writes their limits again with every update."""

    kernel: Kernel
    name = "containerd"

    async def status(self) -> RuntimeStatus:
        return replace(await super().status(), name=self.name, version="1.7.24")

    async def start_container(self, id: str) -> None:
        await super().start_container(id)
        self._limit(id)

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        await super().update_container(id, resources, classes)
        self._limit(id)

    def group(self, id: str) -> str:
        container = self._known(id)
        return f"{container.sandbox.cgroup_parent}/{id}"

    def spec(self, id: str) -> dict[str, Any]:
        """Return a container's specification."""
        return self.amended.get(id, {}).get("linux") or {}

    def _limit(self, id: str) -> None:
        blockio = (self.spec(id).get("resources") or {}).get("blockIO")
        if blockio:
            self.kernel.groups[self.group(id)] = BlockioParameters(weight=blockio["weight"])


@dataclass
class Classes:
    """Implements `Classing`. `on` is the feature gate. Fields may change between two agent processes."""

    file: Path | None = None
    classes: dict[str, int | None] | None = None
    unavailable: Any = "reject"
    on: bool = True
    unified: bool = False
    files: RuntimeFiles = field(default_factory=RuntimeFiles)
    resctrl: Callable[[], Resctrl | None] = lambda: None
    kernel: Kernel = field(default_factory=Kernel)
    node_events: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def settings(self) -> KubeletClassResources:
        offered = None if self.classes is None else {name: OfferedClass(most) for name, most in self.classes.items()}
        stated = OfferedClassType(str(self.file) if self.file else "", offered)
        return KubeletClassResources(self.unavailable, {"blockio": stated})

    def begin(self, machine: Machine, recorder: Recorder) -> PodClasses | None:
        if not self.on:
            machine.allocator = Allocator(AllocationSettings())
            machine.resize_checks.clear()
            return None
        self.discovery = ClassDiscovery(
            self.settings(),
            self.kernel,
            unified=self.unified,
            files=lambda _: self.files,
            resctrl=self.resctrl,
            record_event=lambda reason, message: self.node_events.append((reason, message)),
            changed=lambda: machine.allocator.reconsider(),  # noqa: PLW0108 - it is made below
        )
        self.resource = ClassResource(
            self.discovery,
            NODE,
            lambda uid: machine.manager.beside(uid),  # noqa: PLW0108 - it is made later
            lambda pod: machine.manager.handler(pod.raw) == "gvisor",
        )
        machine.allocator = Allocator(AllocationSettings(), [self.resource])
        runtime = cast("RoutedRuntime", machine.driver)
        kernel = KernelClasses(cast("Hierarchy", self.kernel), self.resctrl, lambda: self.discovery.definitions)
        self.events = ClassEvents(recorder)
        keeper = ClassKeeper(
            runtime, self.discovery, kernel, self.events, NODE, machine.cgroups.path, lambda name: name == "gvisor"
        )
        self.rewrite = keeper.rewrite
        machine.resize_checks[:] = [self.resource.postponed]
        return keeper

    async def run(self, machine: Machine) -> None:
        """Refresh the offered classes and check the pods' classes periodically, as the agent does."""
        while self.on:
            self.discovery.refresh(await machine.driver.status())
            await machine.manager.check_classes()
            await machine.wait(PERIOD)


async def classed(machine: Machine, *, runtime: FakeRuntime | None = None, **settings: Any) -> Classes:
    """Start the agent with classes, by default on a containerd whose pods share its kernel."""
    made = Classes(**settings)
    main = runtime or Containerd(machine.world.clock)
    if isinstance(main, Containerd):
        main.kernel = made.kernel
        made.file = machine.root / "blockio.yaml"
        made.file.write_text(FILE)
    machine.runtime = main
    machine.runtime.add_image("example.com/app:1")
    machine.driver = RoutedRuntime(main, after_update=lambda container: made.rewrite(container))  # noqa: PLW0108 - made at each start
    machine.classing = made
    await machine.allow_everything()
    create = machine.create
    machine.create = lambda name="web", **spec: create(name, **{"runtimeClassName": "runc", **spec})
    await machine.start()
    return made
