"""The machines of a node, as containers of their sandboxes: made, started, ended and found again.

What is in memory is what the records say, and one `Life` for each machine that runs. A machine is written down before
its process is started, so whatever an agent that is killed leaves behind can be told apart by the lock of the attempt:

    lock free, never started    it can be started        lock held    it runs, or is about to: it is taken over
    lock free, was running      it ended meanwhile
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
from tarmac.runtimes.interface import Container, ContainerConfig, NotFound, Resources, RuntimeRefused, SandboxConfig
from tarmac.runtimes.interface.errors import RuntimeFault
from tarmac.runtimes.labels import DISK_VOLUMES, INSTANCE_UID, POD_NAME, POD_NAMESPACE, POD_UID, container_labels
from tarmac.runtimes.qemu import endings
from tarmac.runtimes.qemu.accelerator import Proven
from tarmac.runtimes.qemu.blockstats import DiskTraffic
from tarmac.runtimes.qemu.launching import Launcher
from tarmac.runtimes.qemu.life import Around, Life
from tarmac.runtimes.qemu.process import Process, is_there, last_words
from tarmac.runtimes.qemu.processors import add_processors, processors_of
from tarmac.runtimes.qemu.reaching import WaysIn
from tarmac.runtimes.qemu.records import DiskRecord, MachineRecord, SandboxRecord, machine_id
from tarmac.runtimes.qemu.serial import SerialFiles, SerialLogs

_DEVICES: Final = "/dev/disk/by-id/datumcloud-"
_START_FAILED: Final = 128
_LEAST_MEMORY: Final = 1 << 20
_log = log("qemu")


class Machines:
    """By id."""

    def __init__(self, launcher: Launcher, around: Around, serials: SerialLogs, ways: WaysIn) -> None:
        self._launcher = launcher
        self._around = around
        self._serials = serials
        self._ways = ways
        self._records: dict[str, MachineRecord] = {}
        self._lives: dict[str, Life] = {}
        self._tasks = Tasks()

    # ---- what there is

    def of_sandbox(self, id: str) -> list[MachineRecord]:
        """Those in a sandbox."""
        return [each for each in self._records.values() if each.sandbox_id == id]

    def all(self) -> Iterable[MachineRecord]:
        """Everything that was made and not removed."""
        return self._records.values()

    def known(self, id: str) -> MachineRecord:
        """Raises NotFound."""
        if id not in self._records:
            raise NotFound(f'an error occurred when try to find container "{id}": not found')
        return self._records[id]

    def life(self, id: str) -> Life:
        """Of a machine that runs. Raises NotFound, RuntimeRefused."""
        state = self.known(id).state
        if id not in self._lives or state != "running":
            raise RuntimeRefused(f"the machine is in {state.upper()} state")
        return self._lives[id]

    def shown(self, id: str) -> Container:
        """As runtimes show a container. One that runs may say what it waits for. Raises NotFound."""
        record = self.known(id)
        ended = record.state == "exited"
        waits = self._lives[id].condition if id in self._lives and not ended else ""
        return Container(
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
        """How many there are in each state."""
        return Counter(each.state for each in self._records.values())

    def traffic(self) -> Iterator[tuple[dict[str, str], DiskTraffic]]:
        """Bytes read and written by the disks of running machines, with labels for metrics."""
        for life in self._lives.values():
            labels = life.record.labels
            pod = {"namespace": labels[POD_NAMESPACE], "pod": labels[POD_NAME]}
            if life.record.state == "running":
                yield from (({**pod, "disk": name}, carried) for name, carried in life.traffic.items())

    # ---- what is done with them

    def create(self, config: ContainerConfig, sandbox: SandboxRecord, shared: SandboxConfig, image_id: str) -> str:
        """Write it down. Raises RuntimeRefused, OSError."""
        made = machine_id(sandbox.id, config.attempt)
        if made in self._records:
            raise RuntimeRefused(f'failed to reserve container name "{config.name}": it is reserved')
        record = _record(made, config, sandbox, shared, image_id, self._around.clock.now())
        self._around.folders.attempt(record).mkdir(parents=True, exist_ok=True)
        self._around.folders.keep_machine(record)
        self._records[made] = record
        return made

    async def start(self, id: str, sandbox: SandboxRecord, proven: Proven) -> None:
        """Have it running: QEMU answers. Raises RuntimeFault; what was refused is over."""
        record = self.known(id)
        if record.state != "created":
            raise RuntimeRefused(f"container is in {record.state.upper()} state")
        began = self._around.clock.monotonic()
        record.oom_kills = self._around.oom_kills(sandbox.cgroup)
        try:
            process = await self._launcher.launch(record, sandbox, proven)
            life = self._take(record, process, sandbox)
            await first(life.greeted.wait(), life.over.wait())
            if life.over.is_set():
                raise RuntimeRefused(record.message or "the machine ended before it answered")
        except RuntimeRefused as refusal:
            self._never_ran(record, str(refusal))
            raise
        self._runs(record)
        self._around.figures.boots(sandbox.pod_uid, began, self._around.clock.monotonic())

    async def stop(self, id: str, grace: float) -> None:
        """Ask it to end, and end it after `grace` seconds; one that does not run is no complaint."""
        if id in self._lives and not self._lives[id].over.is_set():
            await self._lives[id].stop(grace)

    async def kill(self, id: str) -> None:
        """End it at once."""
        if id in self._lives and not self._lives[id].over.is_set():
            self._lives[id].note(endings.BY_FORCE)
            await self._lives[id].over.wait()

    async def remove(self, id: str) -> None:
        """Forget it, ending it first if need be."""
        await self.kill(id)
        record = self._records.pop(id, None)
        self._lives.pop(id, None)
        self._serials.release(id)
        if record is not None:
            self._around.folders.forget_machine(record)

    async def resize_disk(self, pod_uid: str, volume: str, size: int) -> None:
        """Have a machine that runs see that the file of a disk has grown. Raises RuntimeFault."""
        for life in list(self._lives.values()):
            if life.record.labels.get(POD_UID) != pod_uid or life.record.state != "running":
                continue
            for index, disk in enumerate(life.record.disks):
                if disk.volume == volume:
                    await life.execute("block_resize", {"node-name": f"disk{index}", "size": size})

    async def resize(self, id: str, limits: Resources) -> None:
        """Give a guest that runs the processors that its limit needs; limits are its cgroup's. Raises RuntimeFault."""
        if self.known(id).state == "running" and limits.cpu_quota > 0:
            await add_processors(self.life(id), processors_of(limits))

    async def adopt(self, records: Iterable[MachineRecord], sandbox: Callable[[str], SandboxRecord]) -> None:
        """Take over what an agent before this one left. No machine is started or ended by it."""
        for record in records:
            self._records[record.id] = record
            if not record.finished_at:
                await self._take_over(record, sandbox(record.sandbox_id))

    async def close(self) -> None:
        """Look after them no longer; they run on."""
        await self._tasks.close()
        for each in self._lives:
            self._serials.release(each)

    # ---- inside

    async def _take_over(self, record: MachineRecord, sandbox: SandboxRecord) -> None:
        folder = self._around.folders.attempt(record)
        if is_there(folder):
            try:
                process = await self._launcher.await_process(record, sandbox)
            except RuntimeFault as fault:
                _log.warning("a machine is not taken over", machine=record.id, why=str(fault))
            else:
                self._take(record, process, sandbox)
                self._runs(record)
                return
        if not record.started_at and not record.reason:
            return  # nothing of it was there yet: it can be started
        if not record.reason:
            killed = self._around.oom_kills(sandbox.cgroup) > record.oom_kills
            ending = endings.of_death(killed, last_words(self._around.folders.said(record)))
            record.exit_code, record.reason, record.message = ending.code, ending.reason, ending.message
        self._follow(record)
        await self._serials.finish(record.id)
        record.finished_at = self._around.clock.now()
        self._around.folders.keep_machine(record)

    def _take(self, record: MachineRecord, process: Process, sandbox: SandboxRecord) -> Life:
        """Look after a process from now on."""
        record.pid, record.start_time = process.pid, process.start_time
        self._follow(record)
        self._ways.begin(record, sandbox.uid)
        life = self._lives[record.id] = Life(record, process, sandbox.uid, sandbox.cgroup, self._around)
        self._tasks.begin(life.run(), f"machine {record.id}")
        return life

    def _follow(self, record: MachineRecord) -> None:
        log_file = Path(record.log_path) if record.log_path else None
        position = self._around.folders.logs_of(record) / "position"
        try:
            self._serials.follow(record.id, SerialFiles(self._around.folders.serial(record), position, log_file))
        except OSError as error:
            _log.warning("a machine has no log", machine=record.id, why=str(error))

    def _runs(self, record: MachineRecord) -> None:
        # An ending that was noted meanwhile is kept: both are fields of the same record.
        record.started_at = record.started_at or self._around.clock.now()
        self._around.folders.keep_machine(record)

    def _never_ran(self, record: MachineRecord, why: str) -> None:
        now = self._around.clock.now()
        record.exit_code, record.reason, record.message = _START_FAILED, "StartError", why
        record.finished_at = record.finished_at or now
        self._around.folders.keep_machine(record)
        self._around.changed(record.id, "stopped")


def _record(
    id: str, config: ContainerConfig, sandbox: SandboxRecord, shared: SandboxConfig, image_id: str, now: float
) -> MachineRecord:
    limits = config.resources
    if limits.memory_limit < _LEAST_MEMORY:
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
        # Files that the agent itself mounts (hosts, a last message) mean nothing to a guest; volumes are folders.
        mounts=[(each.container_path, each.host_path) for each in config.mounts if Path(each.host_path).is_dir()],
    )


def _uuid(text: str) -> str:
    """As QEMU takes it. Raises RuntimeRefused."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise RuntimeRefused(f"{text!r} is no uid of an instance") from None
