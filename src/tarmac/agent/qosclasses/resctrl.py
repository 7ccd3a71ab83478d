"""The kernel's groups of cache and memory bandwidth, at the mount point of resctrl.

A group is a directory with a file `tasks`, which lists threads; writing a thread's id moves it. A new thread is in the
group of its parent. Groups are never created, changed or removed here: a runtime with a file of its own deletes every
group that is not in it, and both would undo each other's changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.decide.qosclasses.resctrl import is_group, mount_point

_ROUNDS: Final = 20  # searches for threads that were started while other threads were moved
_NOT_RUNNING: Final = (ProcessLookupError, FileNotFoundError)


class Resctrl:
    """Groups below `top`; threads are looked up below `proc`."""

    def __init__(self, top: Path, proc: Path = Path("/proc")) -> None:
        self._top = top
        self._proc = proc

    def groups(self) -> list[str]:
        """Return the existing groups, without the default group."""
        try:
            with os.scandir(self._top) as entries:
                folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        return sorted(name for name in folders if is_group(name, (self._top / name / "tasks").exists()))

    def holds(self, name: str, processes: Collection[int]) -> bool:
        """Return True if every thread of these processes is in a group, and there is at least one."""
        threads = self._threads(processes)
        return bool(threads) and threads <= self._tasks(name)

    def move(self, name: str, processes: Callable[[], Collection[int]]) -> None:
        """Put processes into a group; the empty name is the default group. Raises CgroupError.

        `processes` is called again until no thread is found outside: moved threads may start new ones meanwhile.
        """
        for _ in range(_ROUNDS):
            outside = self._threads(processes()) - self._tasks(name)
            if not outside:
                return
            for thread in outside:
                self._move(name, thread)
        raise CgroupError(f"{self._file(name)}: threads start faster than they can be moved")

    def _move(self, name: str, thread: int) -> None:
        file = self._file(name)
        try:
            # One id in each write: older kernels accept no list.
            with file.open("a") as tasks:
                tasks.write(f"{thread}\n")
        except ProcessLookupError:
            return  # it has ended
        except OSError as error:
            raise CgroupError(f"{file}: {thread}: {error.strerror}") from error

    def _threads(self, processes: Collection[int]) -> set[int]:
        found: set[int] = set()
        for process in processes:
            with suppress(*_NOT_RUNNING):
                found.update(int(each) for each in os.listdir(self._proc / str(process) / "task"))
        return found

    def _tasks(self, name: str) -> set[int]:
        try:
            return {int(each) for each in self._file(name).read_text().split()}
        except (OSError, ValueError):
            return set()

    def _file(self, name: str) -> Path:
        return self._top / name / "tasks"


def mounted_resctrl(mounts: Path = Path("/proc/mounts")) -> Resctrl | None:
    """Return resctrl at its mount point; None if it is not mounted."""
    try:
        point = mount_point(mounts.read_text())
    except OSError:
        return None
    return Resctrl(Path(point)) if point else None
