"""The machines of a node, as containers of their sandboxes: create, start, stop, remove and adopt.

Memory holds the records and one `Life` for each running machine. A record is written before its process is started, so
the next agent can tell by the lock of the attempt how far a killed agent came:

    lock free, never started    can be started           lock held    runs or is starting: adopt it
    lock free, was running      exited while no agent ran
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from tarmac.base.log import log
from tarmac.base.tasks import Tasks, first
from tarmac.runtimes.interface import (
    ContainerConfig,
    Resources,
    RuntimeContainer,
    RuntimeObjectNotFound,
    RuntimeRefused,
    SandboxConfig,
)
from tarmac.runtimes.interface.errors import RuntimeFault
from tarmac.runtimes.labels import DISK_VOLUMES, INSTANCE_UID, POD_NAME, POD_NAMESPACE, POD_UID, container_labels
from tarmac.runtimes.qemu import endings
from tarmac.runtimes.qemu.accelerator import AcceleratorProbe
from tarmac.runtimes.qemu.access import MachineAccess
from tarmac.runtimes.qemu.blockstats import DiskTraffic
from tarmac.runtimes.qemu.guestcpus import add_processors, processors_of
from tarmac.runtimes.qemu.launching import Launcher
from tarmac.runtimes.qemu.logtail import log_tail
from tarmac.runtimes.qemu.process import Process, is_there
from tarmac.runtimes.qemu.records import DiskRecord, MachineRecord, SandboxRecord, machine_id
from tarmac.runtimes.qemu.serial import SerialFiles, SerialLogs
from tarmac.runtimes.qemu.supervisor import MachineServices, MachineSupervisor

_DEVICES: Final = "/dev/disk/by-id/datumcloud-"
_START_FAILED: Final = 128
_MIN_MEMORY: Final = 1 << 20

ANSWER_TIMEOUT: Final = 60.0
"""Timeout of QEMU's first answer, in seconds. On a busy host it takes a few."""

_log = log("qemu")


class MachineRegistry:
    """The machines of this node, by id."""

    def __init__(
        self, launcher: Launcher, services: MachineServices, serials: SerialLogs, access: MachineAccess
    ) -> None:
        self._launcher = launcher
        self._services = services
        self._serials = serials
        self._access = access
        self._records: dict[str, MachineRecord] = {}
        self._supervisors: dict[str, MachineSupervisor] = {}
        self._tasks = Tasks()

    # ---- queries

    def of_sandbox(self, id: str) -> list[MachineRecord]:
        """Return the machines of a sandbox."""
        return [each for each in self._records.values() if each.sandbox_id == id]

    def all(self) -> Iterable[MachineRecord]:
        """Return all machines that were created and not removed."""
        return self._records.values()

    def known(self, id: str) -> MachineRecord:
        """Return the record of a machine. Raises RuntimeObjectNotFound."""
        if id not in self._records:
            raise RuntimeObjectNotFound(f'an error occurred when try to find container "{id}": not found')
        return self._records[id]

    def supervisor(self, id: str) -> MachineSupervisor:
        """Return the supervisor of a running machine. Raises RuntimeObjectNotFound, RuntimeRefused."""
        state = self.known(id).state
        if id not in self._supervisors or state != "running":
            raise RuntimeRefused(f"the machine is in {state.upper()} state")
        return self._supervisors[id]

    def shown(self, id: str) -> RuntimeContainer:
        """Return the machine as a container; a running machine's `reason` is its condition.

        Raises RuntimeObjectNotFound.
        """
        record = self.known(id)
        ended = record.state == "exited"
        waits = self._supervisors[id].condition if id in self._supervisors and not ended else ""
        return RuntimeContainer(
            id=record.id,
            sandbox_id=record.sandbox_id,
            name=record.name,
            attempt=record.attempt,
            state="exited" if ended else "running" if record.started_at else "created",
            image=record.image,
            image_id=record.image_id,
            labels=record.labels,
            annotations=record.annotations,
            created_at=record.created_at,
            started_at=record.started_at,
            finished_at=record.finished_at,
            exit_code=record.exit_code if ended else 0,
            reason=record.reason if ended else waits,
            message=record.message if ended else "",
            log_path=record.log_path,
        )

    def states(self) -> Counter[str]:
        """Count machines by state."""
        return Counter(each.state for each in self._records.values())

    def traffic(self) -> Iterator[tuple[dict[str, str], DiskTraffic]]:
        """Bytes read and written by the disks of running machines, with labels for metrics."""
        for supervisor in self._supervisors.values():
            labels = supervisor.record.labels
            pod = {"namespace": labels[POD_NAMESPACE], "pod": labels[POD_NAME]}
            if supervisor.record.state == "running":
                yield from (({**pod, "disk": name}, carried) for name, carried in supervisor.traffic.items())

    # ---- operations

    def create(self, config: ContainerConfig, sandbox: SandboxRecord, shared: SandboxConfig, image_id: str) -> str:
        """Create the record of a machine and persist it. Raises RuntimeRefused, OSError."""
        made = machine_id(sandbox.id, config.attempt)
        if made in self._records:
            raise RuntimeRefused(f'failed to reserve container name "{config.name}": it is reserved')
        record = _record(made, config, sandbox, shared, image_id, self._services.clock.now())
        self._services.folders.attempt(record).mkdir(parents=True, exist_ok=True)
        self._services.folders.keep_machine(record)
        self._records[made] = record
        return made

    async def start(self, id: str, sandbox: SandboxRecord, probe: AcceleratorProbe) -> None:
        """Start the process and wait until QEMU answers. Raises RuntimeFault; RuntimeRefused leaves it exited."""
        record = self.known(id)
        if record.state != "created":
            raise RuntimeRefused(f"container is in {record.state.upper()} state")
        began = self._services.clock.monotonic()
        record.oom_kills = self._services.oom_kills(sandbox.cgroup)
        try:
            process = await self._launcher.launch(record, sandbox, probe)
            await self._answered(self._take(record, process, sandbox))
        except RuntimeRefused as refusal:
            self._never_ran(record, str(refusal))
            raise
        self._runs(record)
        self._services.metrics.boots(sandbox.pod_uid, began, self._services.clock.monotonic())

    async def stop(self, id: str, grace: float) -> None:
        """Stop the machine, by force after `grace` seconds. A machine that does not run is left alone."""
        if id in self._supervisors and not self._supervisors[id].over.is_set():
            await self._supervisors[id].stop(grace)

    async def kill(self, id: str) -> None:
        """Kill the machine without a grace period, and wait until its process is gone."""
        if id in self._supervisors and not self._supervisors[id].over.is_set():
            self._supervisors[id].note(endings.BY_FORCE)
            await self._supervisors[id].over.wait()

    async def remove(self, id: str) -> None:
        """Kill the machine if it runs, and delete its record and files. Raises RuntimeFault; can be repeated."""
        await self.kill(id)
        if id in self._records:
            self._services.folders.forget_machine(self._records[id])
        self._records.pop(id, None)
        self._supervisors.pop(id, None)
        self._serials.release(id)

    async def resize_disk(self, pod_uid: str, volume: str, size: int) -> None:
        """Tell a running machine that the file of its disk has grown. Raises RuntimeFault."""
        for supervisor in list(self._supervisors.values()):
            if supervisor.record.labels.get(POD_UID) != pod_uid or supervisor.record.state != "running":
                continue
            for index, disk in enumerate(supervisor.record.disks):
                if disk.volume == volume:
                    await supervisor.execute("block_resize", {"node-name": f"disk{index}", "size": size})

    async def resize(self, id: str, limits: Resources) -> None:
        """Hot-plug the CPUs that a higher limit needs; the cgroup enforces the limit. Raises RuntimeFault."""
        if self.known(id).state == "running" and limits.cpu_quota > 0:
            await add_processors(self.supervisor(id), processors_of(limits))

    async def adopt(self, records: Iterable[MachineRecord], sandbox: Callable[[str], SandboxRecord]) -> None:
        """Adopt the machines of the previous agent. Never starts or stops a machine."""
        for record in records:
            self._records[record.id] = record
            if not record.finished_at:
                await self._take_over(record, sandbox(record.sandbox_id))

    async def close(self) -> None:
        """Stop supervising; machines keep running."""
        await self._tasks.close()
        for each in self._supervisors:
            self._serials.release(each)

    # ---- inside

    async def _take_over(self, record: MachineRecord, sandbox: SandboxRecord) -> None:
        folder = self._services.folders.attempt(record)
        if is_there(folder):
            try:
                process = await self._launcher.await_process(record, sandbox)
            except RuntimeFault as fault:
                _log.warning("machine adoption failed", machine=record.id, why=str(fault))
            else:
                self._take(record, process, sandbox)
                self._runs(record)
                return
        if not record.started_at and not record.reason:
            return  # its process was never started: it can be started now
        if not record.reason:
            killed = self._services.oom_kills(sandbox.cgroup) > record.oom_kills
            ending = endings.of_death(killed, log_tail(self._services.folders.output_log(record)))
            record.exit_code, record.reason, record.message = ending.code, ending.reason, ending.message
        self._follow(record)
        await self._serials.finish(record.id)
        record.finished_at = self._services.clock.now()
        self._services.folders.note_machine(record)

    async def _answered(self, supervisor: MachineSupervisor) -> None:
        """Wait for QEMU's first answer. Raises RuntimeRefused if it has exited, or is silent and was killed."""
        silent = self._services.clock.sleep(ANSWER_TIMEOUT)
        await first(supervisor.greeted.wait(), supervisor.over.wait(), silent)
        if not supervisor.greeted.is_set() and not supervisor.over.is_set():
            # Its guest may run by now: the process must be gone before a next attempt opens the same disks.
            supervisor.note(endings.silent(ANSWER_TIMEOUT))
            await supervisor.over.wait()
        if supervisor.over.is_set():
            raise RuntimeRefused(supervisor.record.message or "the machine ended before it answered")

    def _take(self, record: MachineRecord, process: Process, sandbox: SandboxRecord) -> MachineSupervisor:
        """Record the process, start its supervisor and follow its serial port."""
        record.pid, record.start_time = process.pid, process.start_time
        self._follow(record)
        self._access.begin(record, sandbox.uid)
        supervisor = self._supervisors[record.id] = MachineSupervisor(
            record, process, sandbox.uid, sandbox.cgroup, self._services
        )
        self._tasks.begin(supervisor.run(), f"machine {record.id}")
        return supervisor

    def _follow(self, record: MachineRecord) -> None:
        log_file = Path(record.log_path) if record.log_path else None
        position = self._services.folders.logs_of(record) / "position"
        try:
            self._serials.follow(record.id, SerialFiles(self._services.folders.serial(record), position, log_file))
        except OSError as error:
            _log.warning("machine log cannot be followed", machine=record.id, why=str(error))

    def _runs(self, record: MachineRecord) -> None:
        # Keeps an exit reason that the supervisor recorded meanwhile: it is in the same record.
        record.started_at = record.started_at or self._services.clock.now()
        self._services.folders.note_machine(record)

    def _never_ran(self, record: MachineRecord, why: str) -> None:
        now = self._services.clock.now()
        record.exit_code, record.reason, record.message = _START_FAILED, "StartError", why
        record.finished_at = record.finished_at or now
        self._services.folders.note_machine(record)
        self._services.changed(record.id, "stopped")


def _record(
    id: str, config: ContainerConfig, sandbox: SandboxRecord, shared: SandboxConfig, image_id: str, now: float
) -> MachineRecord:
    limits = config.resources
    if limits.memory_limit < _MIN_MEMORY:
        raise RuntimeRefused("a virtual machine needs a limit of memory")
    volumes = msgspec.json.decode(config.annotations.get(DISK_VOLUMES, "{}"), type=dict[str, str])
    named = config.annotations.get(INSTANCE_UID, shared.pod.uid)
    return MachineRecord(
        id=id,
        sandbox_id=sandbox.id,
        name=config.name,
        attempt=config.attempt,
        image=config.image_name,
        image_id=image_id,
        uuid=_uuid(named),
        created_at=now,
        log_path=f"{shared.log_directory}/{config.log_path}" if config.log_path else "",
        labels=container_labels(shared.pod, sandbox.id, config.name, config.labels),
        annotations=dict(config.annotations),
        memory_mib=limits.memory_limit >> 20,
        processors=processors_of(limits),
        oom_score_adj=limits.oom_score_adj,
        disks=[
            DiskRecord(
                each.container_path.removeprefix(_DEVICES),
                volumes.get(each.container_path, ""),
                each.host_path,
                "w" not in each.permissions,
            )
            for each in config.devices
        ],
        # Files that the agent mounts itself (hosts, termination log) are useless to guests; volumes are directories.
        mounts=[(each.container_path, each.host_path) for each in config.mounts if Path(each.host_path).is_dir()],
    )


def _uuid(text: str) -> str:
    """Normalise a UID to the form that QEMU accepts. Raises RuntimeRefused."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise RuntimeRefused(f"{text!r} is no uid of an instance") from None
