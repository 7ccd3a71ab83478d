"""The processes of machines: started as nobody's child, known again by whoever comes later, ended for certain.

Whoever starts one holds a lock on a file of the attempt, and hands the lock on: it is held for as long as the new
process is there, from its first moment, through everything it becomes on the way to QEMU. So an agent that was killed
at any point in between leaves no doubt: while the lock is held there is a process with the machine's disks, and no
other is started. Who that is, it has written down itself.

A process counts as the machine's only if its id, its start time, its user and its `-uuid` are the ones that are
known: an id alone may be somebody else's by now.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import BinaryIO

from tarmac.runtimes.interface.errors import RuntimeRefused
from tarmac.runtimes.qemu.cage import Cage

_START_TIME_FIELD = 19  # of /proc/<pid>/stat, counted from the one behind the name


@dataclass(frozen=True, slots=True)
class Process:
    """A process that is the machine's. `descriptor` means this very process, also when its id is given to another."""

    pid: int
    start_time: int
    descriptor: int

    async def gone(self) -> None:
        """Wait for its end."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.descriptor, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(self.descriptor)

    def kill(self) -> None:
        """End it, now. One that is gone is no complaint."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)

    def close(self) -> None:
        """Look after it no longer; it runs on."""
        os.close(self.descriptor)


async def spawn(cage: Cage, command: Sequence[str], descriptors: Sequence[int], said: Path) -> None:
    """Start it, with these files open. Raises RuntimeRefused while another one holds the lock, OSError.

    It may fail after this: then the lock is free again, and `said` has why.
    """
    with _lock_file(cage.folder) as lock, said.open("ab") as output:
        if not _lock(lock.fileno()):
            raise RuntimeRefused("the machine has a process already")
        cage.pid_file.unlink(missing_ok=True)
        starter = await asyncio.create_subprocess_exec(
            *cage.around(command),
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lock.fileno(), *descriptors),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
            cwd="/",
        )
        # Cancelled here, the starter is left to itself: what it starts holds the lock, and is found by that.
        if await starter.wait() != 0:
            raise RuntimeRefused(f"no process could be started: {last_words(said)}")


def is_there(folder: Path) -> bool:
    """Whether a process of the attempt is there, in whatever stage."""
    try:
        with _lock_file(folder) as lock:
            return not _lock(lock.fileno())
    except FileNotFoundError:
        return False


def find(folder: Path, user: int, uuid: str, start_time: int = 0) -> Process | None:
    """The attempt's process once it is QEMU, by what it wrote down. `start_time` is 0 when that is not known yet."""
    try:
        pid = int((folder / "pid").read_text())
        descriptor = os.pidfd_open(pid)
    except (OSError, ValueError):
        return None
    # The descriptor came first: what is read now is about the process that it means, or about nobody.
    try:
        began = _start_time(pid)
        if start_time in (0, began) and _user(pid) == user and _is_machine(pid, uuid):
            return Process(pid, began, descriptor)
    except (OSError, ValueError, IndexError):
        pass
    os.close(descriptor)
    return None


def end_unfinished(folder: Path) -> None:
    """End a process of the attempt that has not become QEMU. Only while the lock is held: the id is not reused."""
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


def last_words(said: Path, longest: int = 2048) -> str:
    """The end of a log."""
    try:
        with said.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - longest))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""


def users_of_processes() -> set[int]:
    """Whom processes of this node run as."""
    found: set[int] = set()
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    found.add(entry.stat().st_uid)
    return found


def _lock_file(folder: Path) -> BinaryIO:
    return (folder / "lock").open("rb")


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start_time(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[_START_TIME_FIELD])


def _user(pid: int) -> int:
    with open(f"/proc/{pid}/status", "rb") as file:
        line = next(line for line in file if line.startswith(b"Uid:"))
    return int(line.split()[1])


def _is_machine(pid: int, uuid: str) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    return (b"-uuid", uuid.encode()) in itertools.pairwise(words)
