"""Virtual machines as a runtime of the node: each pod is one machine, and its sandbox holds the machine's network.

Call `adopt` first: it takes over running machines. The handler is offered once `probe` has found that machines run on
this host. Closing the runtime leaves every machine running.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Literal

from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.tasks import first
from tarmac.runtimes.interface import (
    NO_EXEC,
    CommandStream,
    ConsoleOptions,
    ContainerConfig,
    Credentials,
    ExecResult,
    Handler,
    Image,
    NotOffered,
    PowerAction,
    Progress,
    Resources,
    RuntimeContainer,
    RuntimeEvent,
    RuntimeObjectNotFound,
    RuntimeRefused,
    RuntimeSandbox,
    RuntimeStatus,
    RuntimeUsage,
    SandboxConfig,
    SessionOptions,
    StreamOptions,
)
from tarmac.runtimes.qemu.accelerator import AcceleratorProbe
from tarmac.runtimes.qemu.access import MachineAccess, power
from tarmac.runtimes.qemu.dependencies import MachineCgroups, MachineImages, Taps
from tarmac.runtimes.qemu.launching import Launcher, TapGone
from tarmac.runtimes.qemu.machinemetrics import MachineMetrics, Sample
from tarmac.runtimes.qemu.machineregistry import MachineRegistry
from tarmac.runtimes.qemu.records import MachineFolders, SandboxRecord
from tarmac.runtimes.qemu.sandboxes import SandboxStore, shown
from tarmac.runtimes.qemu.serial import SerialLogs
from tarmac.runtimes.qemu.supervisor import MachineServices
from tarmac.runtimes.qemu.usage import MachineUsage

HANDLER = MACHINE_CLASS

Probe = Callable[[], Awaitable[AcceleratorProbe]]

What = Literal["created", "started", "stopped", "deleted", ""]


class Listeners:
    """Delivers each event to all subscribers."""

    def __init__(self) -> None:
        self._queues: list[asyncio.Queue[RuntimeEvent | None]] = []

    def notify(self, event: RuntimeEvent) -> None:
        """Queue an event for all subscribers."""
        for queue in self._queues:
            queue.put_nowait(event)

    async def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        """Subscribe. The first item is None: list everything, since earlier events were missed."""
        queue: asyncio.Queue[RuntimeEvent | None] = asyncio.Queue()
        queue.put_nowait(None)
        self._queues.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues.remove(queue)


class QemuRuntime:
    """Implements `Runtime`. `probe` probes for an accelerator; it raises RuntimeRefused where no machine can run."""

    def __init__(
        self,
        folders: MachineFolders,
        taps: Taps,
        groups: MachineCgroups,
        images: MachineImages,
        clock: Clock,
        probe: Probe,
        router: str,
        on_reset: Callable[[SandboxRecord], None] = lambda _: None,
    ) -> None:
        """`on_reset` is called when a guest has rebooted itself."""
        self.machine_metrics = MachineMetrics()
        self.serials = SerialLogs(clock)
        self.access = MachineAccess(folders, self.serials, clock)
        self.probe_result: AcceleratorProbe | None = None
        self._on_reset = on_reset
        self._folders = folders
        self._taps = taps
        self._used = MachineUsage(groups, clock)
        self._images = images
        self._probe = probe
        self._listeners = Listeners()
        self._sandboxes = SandboxStore(folders, taps, clock)
        services = MachineServices(
            folders, clock, self.machine_metrics, groups.oom_kills, self._changed, self.serials.finish
        )
        launcher = Launcher(folders, taps, groups, images, clock, router)
        self.machines = MachineRegistry(launcher, services, self.serials, self.access)

    async def adopt(self) -> None:
        """Load all records and take over running machines. Must precede every other call."""
        sandboxes, machines = await asyncio.to_thread(self._folders.load)
        self._sandboxes.adopt(sandboxes)
        await asyncio.to_thread(self._sandboxes.sweep)
        for sandbox in sandboxes:
            self._learn(sandbox.annotations)
        await self.machines.adopt(machines, self._sandboxes.known)

    async def probe(self) -> AcceleratorProbe:
        """Probe for an accelerator; from then on the handler is offered. Raises RuntimeRefused."""
        self.probe_result = await self._probe()
        return self.probe_result

    async def status(self) -> RuntimeStatus:
        offered = (Handler(HANDLER, own_kernel=True),) if self.probe_result is not None else ()
        return RuntimeStatus("qemu", "", ready=True, network_ready=True, handlers=offered)

    async def close(self) -> None:
        """Stop supervising and end all sessions; machines keep running."""
        await self.access.close()
        await self.machines.close()

    async def run(self) -> None:
        """Copy serial output into logs and to consoles, until cancelled."""
        await first(self.serials.run(), self.access.consoles.run())

    # ---- sandboxes

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        if handler != HANDLER:
            raise RuntimeRefused(f'no runtime for "{handler}" is configured')
        self._learn(config.annotations)
        try:
            record = await self._sandboxes.make(config, handler)
        except OSError as error:
            raise RuntimeRefused(f"the sandbox cannot be made: {error}") from error
        self._notify(record, record.id, "created")
        return record.id

    async def stop_sandbox(self, id: str) -> None:
        for each in self.machines.of_sandbox(id):
            await self.machines.kill(each.id)
        await self._sandboxes.stop(id)

    async def remove_sandbox(self, id: str) -> None:
        record = self._sandboxes.find(id)
        if record is None:
            return
        await self.stop_sandbox(id)
        for each in self.machines.of_sandbox(id):
            await self.machines.remove(each.id)
        self._sandboxes.remove(id)
        self.access.gone(id)
        self._notify(record, id, "deleted")

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[RuntimeSandbox]:
        found = [each for each in self._sandboxes.all() if pod_uid in (None, each.pod_uid)]
        return [shown(each, addresses=False) for each in found]

    async def sandbox(self, id: str) -> RuntimeSandbox:
        return shown(self._sandboxes.known(id), addresses=True)

    async def update_sandbox(self, id: str, classes: Mapping[str, str]) -> None:
        raise RuntimeRefused("virtual machines know no classes")

    # ---- containers

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Persist the machine's record; no process is started yet."""
        record = self._sandboxes.known(sandbox_id)
        if config.security.target_container:
            raise NotOffered(NO_EXEC)
        image = await self._images.image(config.image, HANDLER)
        if image is None:
            raise RuntimeObjectNotFound(f'failed to resolve image "{config.image}": not found')
        try:
            made = self.machines.create(config, record, sandbox, image.id)
        except OSError as error:
            raise RuntimeRefused(f"the machine cannot be made: {error}") from error
        self._notify(record, made, "created")
        return made

    async def start_container(self, id: str) -> None:
        machine = self.machines.known(id)
        sandbox = self._sandboxes.known(machine.sandbox_id)
        probe_result = (
            self.probe_result or await self.probe()
        )  # an adopted machine may restart before the node has probed
        try:
            await self.machines.start(id, sandbox, probe_result)
        except TapGone:
            self._sandboxes.lost(sandbox.id)
            raise
        self._notify(sandbox, id, "started")

    async def stop_container(self, id: str, grace: float) -> None:
        await self.machines.stop(id, grace)

    async def remove_container(self, id: str) -> None:
        sandbox = self._sandbox_of(id)
        await self.machines.remove(id)
        if sandbox is not None:
            self._notify(sandbox, id, "deleted")

    async def containers(self, pod_uid: str | None = None) -> Sequence[RuntimeContainer]:
        of_pod = {each.id for each in self._sandboxes.all() if pod_uid in (None, each.pod_uid)}
        return [self.machines.shown(each.id) for each in list(self.machines.all()) if each.sandbox_id in of_pod]

    async def container(self, id: str) -> RuntimeContainer:
        return self.machines.shown(id)

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        """Add CPUs for a higher limit. The pod's cgroup has the new limits already; memory changes with a restart."""
        self.machines.known(id)
        if resources is not None:
            await self.machines.resize(id, resources)

    async def amend_spec(self, id: str, changes: JsonObject) -> None:
        raise RuntimeRefused("a virtual machine has no OCI specification")

    async def reopen_log(self, id: str) -> None:
        self.serials.reopen(id)

    # ---- processes and streams

    async def exec(self, id: str, command: Sequence[str], timeout: float) -> ExecResult:
        self.machines.known(id)
        raise NotOffered(NO_EXEC)

    async def exec_stream(self, id: str, command: Sequence[str], options: StreamOptions) -> CommandStream:
        self.machines.known(id)
        raise NotOffered(NO_EXEC)

    async def attach_stream(self, id: str, options: StreamOptions) -> CommandStream:
        """Attach to the serial console."""
        return self.access.attach(self.machines.supervisor(id), options)

    async def console_stream(self, id: str, options: ConsoleOptions) -> CommandStream:
        return self.access.console(self.machines.known(id).sandbox_id, options)

    async def display_stream(self, id: str, options: SessionOptions) -> CommandStream:
        return await self.access.display(self.machines.supervisor(id), options)

    async def power(self, id: str, action: PowerAction) -> None:
        await power(self.machines.supervisor(id), action)

    # ---- usage

    async def container_usage(self) -> Sequence[RuntimeUsage]:
        running = [each for each in self.machines.all() if each.state == "running"]
        return [self._used.of(each.id, self._sandboxes.known(each.sandbox_id).cgroup) for each in running]

    async def sandbox_usage(self) -> Sequence[RuntimeUsage]:
        ready = [each for each in self._sandboxes.all() if not each.stopped]
        traffic = await self._taps.traffic() if ready else {}
        return [self._used.of(each.id, each.cgroup, *traffic.get(each.id, (0, 0))) for each in ready]

    # ---- images

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        return await self._images.pull(image, credentials, progress, handler)

    async def image(self, name: str, handler: str = "") -> Image | None:
        return await self._images.image(name, handler)

    async def images(self) -> Sequence[Image]:
        return await self._images.images()

    async def remove_image(self, name: str, handler: str = "") -> None:
        await self._images.remove_image(name, handler)

    async def image_space(self) -> tuple[str, int, int]:
        return await self._images.image_space()

    # ---- changes

    def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        return self._listeners.events()

    def metrics(self, image_bytes: int) -> Iterator[Sample]:
        """Yield the samples for `/metrics`."""
        sessions = Counter({"console": self.access.consoles.sessions, "vnc": self.access.viewers})
        yield from self.machine_metrics.samples(self.machines.states(), sessions, image_bytes)
        for labels, carried in self.machines.traffic():
            yield "tarmac_machine_disk_read_bytes_total", "counter", labels, carried.read
            yield "tarmac_machine_disk_written_bytes_total", "counter", labels, carried.written

    # ---- inside

    def _learn(self, annotations: Mapping[str, str]) -> None:
        if ANNOTATION_MACHINE_IMAGES in annotations:
            self._images.learn(annotations[ANNOTATION_MACHINE_IMAGES])

    def _sandbox_of(self, id: str) -> SandboxRecord | None:
        try:
            return self._sandboxes.find(self.machines.known(id).sandbox_id)
        except RuntimeObjectNotFound:
            return None

    def _changed(self, id: str, what: str) -> None:
        sandbox = self._sandbox_of(id)
        if sandbox is None:
            return
        if what == "reset":
            self._on_reset(sandbox)
        elif what == "stopped":
            self.access.over(self.machines.known(id))
        self._notify(sandbox, id, "stopped" if what == "stopped" else "")

    def _notify(self, sandbox: SandboxRecord, id: str, what: What) -> None:
        self._listeners.notify(RuntimeEvent(sandbox.pod_uid, id, what))
