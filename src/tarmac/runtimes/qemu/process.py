"""Starts, finds and kills the processes of machines. They are not children of the agent and outlive it.

The starter locks a file of the attempt and passes the lock on: the new process holds it from its first moment, through
every stage of becoming QEMU, until it exits. So an agent killed at any point leaves no ambiguity: while the lock is
held, a process may have the machine's disks open, and no second one is started. The process itself writes its id.

A process counts as the machine's only if its id, its start time, its user and its `-uuid` all match: an id alone may
have been reused.
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
from tarmac.runtimes.qemu.jail import Jail
from tarmac.runtimes.qemu.logtail import log_tail

_START_TIME_FIELD = 19  # of /proc/<pid>/stat, counted from the first field after the name


@dataclass(frozen=True, slots=True)
class Process:
    """The process of a machine. `descriptor` is a pidfd: it refers to this process even after its id was reused."""

    pid: int
    start_time: int
    descriptor: int

    async def gone(self) -> None:
        """Wait until the process has exited."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.descriptor, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(self.descriptor)

    def kill(self) -> None:
        """Send SIGKILL. A process that has exited is ignored."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)

    def close(self) -> None:
        """Close the pidfd; the process keeps running."""
        os.close(self.descriptor)


async def spawn(jail: Jail, command: Sequence[str], descriptors: Sequence[int], log_file: Path) -> None:
    """Start the process, with these files open. Raises RuntimeRefused while another process holds the lock, OSError.

    The process may still fail after this returns: then the lock is free again, and `log_file` has the cause.
    """
    with _lock_file(jail.folder) as lock, log_file.open("ab") as output:
        if not _lock(lock.fileno()):
            raise RuntimeRefused("the machine has a process already")
        jail.pid_file.unlink(missing_ok=True)
        starter = await asyncio.create_subprocess_exec(
            *jail.wrap(command),
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lock.fileno(), *descriptors),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
            cwd="/",
        )
        # On cancellation the starter is not killed: the process it starts holds the lock, and is found through it.
        if await starter.wait() != 0:
            raise RuntimeRefused(f"no process could be started: {log_tail(log_file)}")


def is_there(folder: Path) -> bool:
    """Tell if a process of the attempt exists, in any stage of its start."""
    try:
        with _lock_file(folder) as lock:
            return not _lock(lock.fileno())
    except FileNotFoundError:
        return False


def find(folder: Path, user: int, uuid: str, start_time: int = 0) -> Process | None:
    """Return the attempt's process by its pid file, once it is QEMU. `start_time` is 0 when it is not known yet."""
    try:
        pid = int((folder / "pid").read_text())
        descriptor = os.pidfd_open(pid)
    except (OSError, ValueError):
        return None
    # The pidfd was opened first: values read from /proc now describe that process, or reading fails.
    try:
        began = _start_time(pid)
        if start_time in (0, began) and _user(pid) == user and _is_machine(pid, uuid):
            return Process(pid, began, descriptor)
    except (OSError, ValueError, IndexError):
        pass
    os.close(descriptor)
    return None


def end_unfinished(folder: Path) -> None:
    """Kill a process of the attempt that is not QEMU yet. Safe only while the lock is held: the id is not reused."""
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


def users_of_processes() -> set[int]:
    """Return the user ids of all processes of this node."""
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
