"""Records of sandboxes and machines on disk, from which the next agent adopts running machines.

    <run>/<sandbox>/sandbox.json            the sandbox; a directory without it is incomplete and is swept
    <run>/<sandbox>/<attempt>/machine.json  a machine, from before it starts until it is removed
    <run>/<sandbox>/<attempt>/pid           the process id, written by the process itself before it becomes QEMU
    <run>/<sandbox>/<attempt>/lock          locked while that process exists, in every stage of its start
    <run>/<sandbox>/<attempt>/run           sockets; the process sees this directory as its /run
    <logs>/<sandbox>/<attempt>/             serial.raw and qemu.log, which grow and must not be in memory

Each JSON file is replaced atomically. Ids are derived from the pod's uid and the attempt, so a step repeated after a
crash produces the same id, and the path of every socket stays within the kernel's limit.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.base.log import log
from tarmac.runtimes.interface.errors import RuntimeRefused

PREFIX = "vm-"
_SANDBOX_FILE = "sandbox.json"
_MACHINE_FILE = "machine.json"
_log = log("qemu")


class SandboxRecord(msgspec.Struct, kw_only=True):
    """A sandbox: its configuration and state. `uid` is the user that its machines run as."""

    id: str
    namespace: str
    name: str
    pod_uid: str
    attempt: int
    handler: str
    created_at: float
    cgroup: str
    log_directory: str
    uid: int
    hostname: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    dns_servers: list[str] = []
    dns_searches: list[str] = []
    interfaces: list[AttachedInterface] = []
    stopped: bool = False


class DiskRecord(msgspec.Struct):
    """A disk: its name in the guest, the pod's volume, and the file."""

    name: str
    volume: str
    path: str
    read_only: bool = False


class MachineRecord(msgspec.Struct, kw_only=True):
    """A machine. `pid` and `start_time` are 0 until it runs; `finished_at` is 0 until it has exited."""

    id: str
    sandbox_id: str
    name: str
    attempt: int
    image: str
    image_id: str
    uuid: str
    created_at: float
    log_path: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    memory_mib: int = 0
    processors: int = 1
    oom_score_adj: int = 0
    disks: list[DiskRecord] = []
    mounts: list[tuple[str, str]] = []  # path in the guest, directory on the host
    pid: int = 0
    start_time: int = 0
    oom_kills: int = 0  # OOM kills of the cgroup before the machine started
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def state(self) -> str:
        """The state as the runtime interface names it."""
        return "exited" if self.finished_at else "running" if self.started_at else "created"


_sandbox = msgspec.json.Decoder(SandboxRecord).decode
_machine = msgspec.json.Decoder(MachineRecord).decode
_encode = msgspec.json.Encoder(enc_hook=str).encode


def sandbox_id(pod_uid: str, attempt: int) -> str:
    """Return the id of a pod's sandbox."""
    return PREFIX + sha256(f"{pod_uid}/{attempt}".encode()).hexdigest()[:16]


def machine_id(sandbox: str, attempt: int) -> str:
    """Return the id of a machine in a sandbox."""
    return f"{sandbox}-{attempt}"


class MachineFolders:
    """Paths of records, sockets and logs. `run` is in memory where the node has that, `logs` never is."""

    def __init__(self, run: Path, logs: Path) -> None:
        self.run = run
        self.logs = logs

    def sandbox(self, id: str) -> Path:
        return self.run / id

    def attempt(self, record: MachineRecord) -> Path:
        return self.run / record.sandbox_id / str(record.attempt)

    def logs_of(self, record: MachineRecord) -> Path:
        return self.logs / record.sandbox_id / str(record.attempt)

    def serial(self, record: MachineRecord) -> Path:
        """The raw output of the guest's serial port."""
        return self.logs_of(record) / "serial.raw"

    def output_log(self, record: MachineRecord) -> Path:
        """The standard output and standard error of QEMU."""
        return self.logs_of(record) / "qemu.log"

    def socket(self, record: MachineRecord, name: str) -> Path:
        return self.attempt(record) / "run" / f"{name}.sock"

    def keep_sandbox(self, record: SandboxRecord) -> None:
        """Persist the record of a sandbox. Raises OSError."""
        replace_file(self.sandbox(record.id) / _SANDBOX_FILE, _encode(record))

    def keep_machine(self, record: MachineRecord) -> None:
        """Persist the record of a machine. Raises OSError."""
        replace_file(self.attempt(record) / _MACHINE_FILE, _encode(record))

    def note_sandbox(self, record: SandboxRecord) -> None:
        """Persist a change of a sandbox that has happened. A failure is logged: memory has the state meanwhile."""
        try:
            self.keep_sandbox(record)
        except OSError as error:
            _log.warning("sandbox record cannot be written", sandbox=record.id, why=str(error))

    def note_machine(self, record: MachineRecord) -> None:
        """Persist a change of a machine that has happened. A failure is logged: memory has the state meanwhile."""
        try:
            self.keep_machine(record)
        except OSError as error:
            _log.warning("machine record cannot be written", machine=record.id, why=str(error))

    def load(self) -> tuple[list[SandboxRecord], list[MachineRecord]]:
        """Return all complete records. Unreadable records are skipped; their directories are left to the sweep."""
        sandboxes = [found for folder in _folders(self.run) if (found := _read(folder / _SANDBOX_FILE, _sandbox))]
        machines = [
            found
            for sandbox in sandboxes
            for folder in _folders(self.sandbox(sandbox.id))
            if (found := _read(folder / _MACHINE_FILE, _machine))
        ]
        return sandboxes, machines

    def forget_machine(self, record: MachineRecord) -> None:
        """Delete the record, files and logs of a machine. Raises RuntimeRefused while the record cannot be deleted."""
        # The record goes first: a directory without one is incomplete, and no agent adopts it.
        _delete(self.attempt(record) / _MACHINE_FILE)
        shutil.rmtree(self.attempt(record), ignore_errors=True)
        shutil.rmtree(self.logs_of(record), ignore_errors=True)

    def forget_sandbox(self, id: str) -> None:
        """Delete the record, files and logs of a sandbox and of its machines. Raises RuntimeRefused, as above."""
        _delete(self.sandbox(id) / _SANDBOX_FILE)
        shutil.rmtree(self.sandbox(id), ignore_errors=True)
        shutil.rmtree(self.logs / id, ignore_errors=True)

    def strays(self) -> list[str]:
        """Return ids of directories without a sandbox record: an agent was killed while creating or removing one."""
        names = {each.name for top in (self.run, self.logs) for each in _folders(top) if each.name.startswith(PREFIX)}
        return sorted(name for name in names if not (self.sandbox(name) / _SANDBOX_FILE).exists())


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: a reader sees the old or the new content. Raises OSError."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(content)
    os.replace(draft, path)


def _delete(file: Path) -> None:
    """Delete a record. Raises RuntimeRefused: until it is gone, the next agent would adopt the record again."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise RuntimeRefused(f"a record cannot be deleted, will be retried: {error}") from error


def _folders(top: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError, NotADirectoryError):
        yield from sorted(each for each in top.iterdir() if each.is_dir() and not each.is_symlink())


def _read(file: Path, decode: Any) -> Any:
    try:
        return decode(file.read_bytes())
    except (OSError, UnicodeError, msgspec.MsgspecError):
        return None
