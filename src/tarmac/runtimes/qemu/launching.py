"""Starts the process of a machine from its record: opens the files it inherits, and closes the agent's copies.

Disks, taps and the kernel are open files of the new process. The seed and the read-only disks made from volumes with
files are built anew at each start.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Final

from tarmac.base.clock import Clock
from tarmac.decide.disks import VARIABLES
from tarmac.runtimes.interface.errors import RuntimeRefused
from tarmac.runtimes.qemu.accelerator import AcceleratorProbe
from tarmac.runtimes.qemu.commandline import command_line
from tarmac.runtimes.qemu.dependencies import MachineCgroups, MachineImages, Taps
from tarmac.runtimes.qemu.filedisks import VOLUME_BYTES, volume_files, volume_label
from tarmac.runtimes.qemu.iso import IsoFile, IsoTooLarge, iso_image
from tarmac.runtimes.qemu.jail import Jail
from tarmac.runtimes.qemu.logtail import log_tail
from tarmac.runtimes.qemu.machine import (
    Accelerator,
    DirectKernel,
    DiskImage,
    MachineDescription,
    TapInterface,
    UefiFirmware,
)
from tarmac.runtimes.qemu.nics import open_interface
from tarmac.runtimes.qemu.process import Process, end_unfinished, find, is_there, spawn
from tarmac.runtimes.qemu.records import MachineFolders, MachineRecord, SandboxRecord
from tarmac.runtimes.qemu.seed.documents import MAX_BYTES, SeedTooLarge, documents
from tarmac.runtimes.qemu.seeding import seed_of, volume_folders
from tarmac.runtimes.qemu.serial import KEYS

_POLL_SECONDS = 0.01
_START_TIMEOUT = 30.0

MAX_SERIAL = 20
SEED_SERIAL = "cidata"
_HASHED = 4

CODE: Final = Path("/usr/share/OVMF/OVMF_CODE_4M.fd")
_TEMPLATE: Final = Path("/usr/share/OVMF/OVMF_VARS_4M.fd")


class TapGone(RuntimeRefused):
    """A tap of the sandbox no longer exists: the sandbox cannot be used again."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts processes. `router` is the IPv6 default gateway of guests."""

    folders: MachineFolders
    taps: Taps
    groups: MachineCgroups
    images: MachineImages
    clock: Clock
    router: str

    async def launch(self, record: MachineRecord, sandbox: SandboxRecord, probe: AcceleratorProbe) -> Process:
        """Start the machine and return its process once it is QEMU. Raises RuntimeRefused with the cause."""
        with ExitStack() as files:
            try:
                machine = await self._machine(record, sandbox, files, probe.accelerator)
                jail = await asyncio.to_thread(self._jail, record, sandbox, probe)
                command = command_line(machine, probe.accelerator)
                await spawn(jail, command, _descriptors(machine), self.folders.output_log(record))
            except OSError as error:
                raise RuntimeRefused(f"the machine cannot be started: {error}") from error
        return await self.await_process(record, sandbox)

    async def await_process(self, record: MachineRecord, sandbox: SandboxRecord) -> Process:
        """Wait until the started process is QEMU. Raises RuntimeRefused if it exits before that, or after 30 s."""
        folder = self.folders.attempt(record)
        deadline = self.clock.monotonic() + _START_TIMEOUT
        while True:
            if process := find(folder, sandbox.uid, record.uuid, record.start_time):
                return process
            if not is_there(folder):
                raise RuntimeRefused(log_tail(self.folders.output_log(record)) or "the machine's process ended at once")
            if self.clock.monotonic() > deadline:
                end_unfinished(folder)
                raise RuntimeRefused(f"no machine came of its process within {_START_TIMEOUT:g} s")
            await self.clock.sleep(_POLL_SECONDS)

    # ---- inputs of the process

    async def _machine(
        self, record: MachineRecord, sandbox: SandboxRecord, files: ExitStack, accelerator: Accelerator
    ) -> MachineDescription:
        volumes = volume_folders(record)
        names = [each.name for each in record.disks] + [Path(folder).name for _, folder in volumes]
        serials = disk_serials(names)
        disks = [
            DiskImage(serial, _opened(each.path, files, read_only=each.read_only), each.read_only)
            for serial, each in zip(serials, record.disks, strict=False)
        ]
        for number, (serial, (_, folder)) in enumerate(zip(serials[len(disks) :], volumes, strict=True)):
            made = await asyncio.to_thread(self._volume, record, number, folder)
            disks.append(DiskImage(serial, _opened(str(made), files, read_only=True), read_only=True))
        return MachineDescription(
            name=sandbox.name,
            uuid=record.uuid,
            memory_mib=record.memory_mib,
            processors=record.processors,
            disks=tuple(disks),
            seed=await self._seed(record, sandbox, serials, files),
            interfaces=tuple(await self._interfaces(sandbox, files, accelerator, record.processors)),
            kernel=self._kernel(record, files),
            uefi=await asyncio.to_thread(self._uefi, record, files),
        )

    async def _interfaces(
        self, sandbox: SandboxRecord, files: ExitStack, accelerator: Accelerator, processors: int
    ) -> list[TapInterface]:
        found: list[TapInterface] = []
        for position, interface in enumerate(sandbox.interfaces):
            try:
                tap = await self.taps.open(sandbox.id, position)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    raise TapGone(f"interface {interface.name} of the sandbox is gone") from error
                raise
            queues = partial(self.taps.open, sandbox.id, position, further=True)
            found.append(await open_interface(interface.mac, tap, queues, files, accelerator, processors))
        return found

    def _kernel(self, record: MachineRecord, files: ExitStack) -> DirectKernel | None:
        boot = self.images.boot_files(record.image_id)
        if boot is None:
            return None
        initrd = None if boot.initrd is None else _opened(str(boot.initrd), files, read_only=True)
        return DirectKernel(_opened(str(boot.kernel), files, read_only=True), initrd, boot.command_line)

    def _uefi(self, record: MachineRecord, files: ExitStack) -> UefiFirmware | None:
        if not self.images.starts_by_uefi(record.image_id):
            return None
        variables = make_variables(variables_of(record.disks[0].path, self.folders.logs_of(record)))
        return UefiFirmware(_opened(str(CODE), files, read_only=True), _opened(str(variables), files, read_only=False))

    def _volume(self, record: MachineRecord, number: int, folder: str) -> Path:
        """Write the files of a volume to a disk image. Raises RuntimeRefused."""
        name = Path(folder).name
        try:
            image = iso_image(volume_label(name), volume_files(Path(folder)), VOLUME_BYTES)
        except IsoTooLarge as error:
            raise RuntimeRefused(f"volume {name}: {error}") from error
        return self._private(record, f"volume{number}.iso", image)

    async def _seed(
        self, record: MachineRecord, sandbox: SandboxRecord, serials: Sequence[str], files: ExitStack
    ) -> DiskImage | None:
        if not self.images.accepts_cloud_init(record.image_id):
            return None
        try:
            seed = documents(seed_of(record, sandbox, serials, self.router))
            image = iso_image(SEED_SERIAL, {name: IsoFile(content) for name, content in seed.items()}, MAX_BYTES)
        except (SeedTooLarge, IsoTooLarge) as error:
            raise RuntimeRefused(str(error)) from error
        made = await asyncio.to_thread(self._private, record, "seed.iso", image)
        return DiskImage(SEED_SERIAL, _opened(str(made), files, read_only=True), read_only=True)

    def _private(self, record: MachineRecord, name: str, content: bytes) -> Path:
        """Write a file readable only by root: it may hold secrets."""
        path = self.folders.attempt(record) / name
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        return path

    def _jail(self, record: MachineRecord, sandbox: SandboxRecord, probe: AcceleratorProbe) -> Jail:
        """Create the directories, the keyboard pipe and the log that the process needs. Raises OSError."""
        folder, logs = self.folders.attempt(record), self.folders.logs_of(record)
        for each in (folder / "root", folder / "run", logs):
            each.mkdir(parents=True, exist_ok=True)
        os.chown(folder / "run", sandbox.uid, sandbox.uid)
        (folder / "run").chmod(0o700)
        keys, nowhere = folder / "run" / KEYS, folder / "run" / "serial.out"
        if not keys.exists():
            os.mkfifo(keys, 0o600)
            os.chown(keys, sandbox.uid, sandbox.uid)
            nowhere.symlink_to("/dev/null")
        (folder / "lock").touch(mode=0o600)  # a user who can read it could lock it, and the machine would seem to run
        serial = self.folders.serial(record)
        serial.touch(mode=0o600)
        os.chown(serial, sandbox.uid, sandbox.uid)
        return Jail(
            folder=folder,
            serial=serial,
            user=sandbox.uid,
            entrances=self.groups.entrances(sandbox.cgroup),
            oom_score_adj=record.oom_score_adj,
            kvm_group=probe.kvm_group,
        )


def _opened(path: str, files: ExitStack, *, read_only: bool) -> int:
    """Open a regular file or block device and register its close. Raises OSError."""
    descriptor = os.open(path, (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC)
    files.callback(os.close, descriptor)
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise OSError(errno.EINVAL, f"{path} is neither a file nor a disk")
    return descriptor


def _descriptors(machine: MachineDescription) -> list[int]:
    disks = [*machine.disks, *([machine.seed] if machine.seed else [])]
    kernel, uefi = machine.kernel, machine.uefi
    booted = [each for each in (kernel.kernel, kernel.initrd) if each is not None] if kernel else []
    booted += [uefi.code, uefi.variables] if uefi else []
    taps = [each for interface in machine.interfaces for each in (*interface.queues, *interface.vhosts)]
    return [*(each.descriptor for each in disks), *taps, *booted]


# Serial numbers of disks, by which a guest tells them apart: the device name, cut to fit.
#
# A virtio disk's serial has 20 bytes, and a device name up to 60. If cut names of one machine collide, the last
# characters are replaced by a hash; the same names always get the same serials.


def disk_serials(names: Sequence[str]) -> list[str]:
    """Return the serial of each disk, in the order of their device names. None equals the seed's serial."""
    alike = Counter([SEED_SERIAL, *(name[:MAX_SERIAL] for name in names)])
    taken = {serial for serial, number in alike.items() if number == 1} | {SEED_SERIAL}
    return [name[:MAX_SERIAL] if alike[name[:MAX_SERIAL]] == 1 else _hashed(name, taken) for name in names]


def _hashed(name: str, taken: set[str]) -> str:
    """Return an unused serial and mark it as taken. Hashes of 16 bits may collide, and volumes may have equal names."""
    for attempt in count():
        salt = f"{name}\0{attempt}" if attempt else name
        serial = name[: MAX_SERIAL - _HASHED] + sha256(salt.encode()).hexdigest()[:_HASHED]
        if serial not in taken:
            taken.add(serial)
            return serial
    raise AssertionError("endless")


# UEFI: Debian's read-only firmware, and one file of variables (boot entries, mostly) per machine.
#
# That file belongs to the boot disk and lies beside it: it survives a restart of the machine, serves the next Instance
# with that disk, and is deleted with the disk. A boot disk that is not a file has its variables in the log directory.


def variables_of(boot_disk: str, otherwise: Path) -> Path:
    """Return the path of a machine's variables. Raises OSError."""
    path = Path(os.path.realpath(boot_disk))
    beside = stat.S_ISREG(path.stat().st_mode)
    return path.with_suffix(VARIABLES) if beside else otherwise / f"firmware{VARIABLES}"


def make_variables(path: Path) -> Path:
    """Create the variables atomically, unless they exist. Raises RuntimeRefused without firmware, OSError."""
    if missing := next((each for each in (CODE, _TEMPLATE) if not each.exists()), None):
        raise RuntimeRefused(
            f"the machine's image starts by UEFI, and this node has no firmware for it ({missing}): "
            "install Debian's package ovmf on the node"
        )
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f"{VARIABLES}~")
        shutil.copyfile(_TEMPLATE, fresh)
        fresh.chmod(0o600)
        fresh.rename(path)  # an agent killed before this starts over with a new copy
    return path
