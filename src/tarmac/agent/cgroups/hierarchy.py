"""The interface to control groups, independent of their version, and the file operations of both versions.

Paths are in the runtime's form: absolute, below the top of the hierarchy. All calls are idempotent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tarmac.agent.model.cgrouplimits import CgroupLimits
from tarmac.base.cpuset import CPUSet
from tarmac.decide.qosclasses.blockio import BlockioParameters


class CgroupError(Exception):
    """The kernel refused an operation. The message names it."""


class BlockIo(Protocol):
    """Block I/O limits of groups. On v1 they apply to processes of the group itself, not to those of child groups."""

    def has(self, path: str, parameters: BlockioParameters) -> bool:
        """Return True if the group has exactly these limits."""
        ...

    def put(self, path: str, parameters: BlockioParameters) -> None:
        """Set these limits; write only differences. Raises CgroupError."""
        ...


class Hierarchy(Protocol):
    """The control groups of one host."""

    def make(self, path: str) -> bool:
        """Create the group and its parents, ready for processes; return True if it is new. Raises CgroupError."""
        ...

    def limit(self, path: str, limits: CgroupLimits) -> None:
        """Set limits on a group. Raises CgroupError."""
        ...

    def entrances(self, path: str) -> Sequence[Path]:
        """Return the group's files that move a process with all its threads into it when its pid is written to them."""
        ...

    def widen(self, path: str) -> None:
        """Give a group all CPUs of its parent. Raises CgroupError."""
        ...

    def pin(self, path: str, cpus: CPUSet, inner: Mapping[str, CPUSet]) -> None:
        """Restrict a group to these CPUs, and named child groups to a part of them. Raises CgroupError.

        Child groups that are not named get all of them. At no time may a process run on a CPU that is neither in its
        old nor in its new set.
        """
        ...

    def allowed(self, path: str) -> CPUSet:
        """Return the CPUs that processes of this group and its child groups may run on, read from each process."""
        ...

    def exists(self, path: str) -> bool: ...

    def children(self, path: str) -> Sequence[str]:
        """Return the names of direct child groups."""
        ...

    def kill(self, path: str) -> int:
        """Kill all processes in the group and its child groups; return their number."""
        ...

    def remove(self, path: str) -> bool:
        """Remove the group and its child groups; False while processes are still exiting."""
        ...

    def shares(self, path: str) -> int:
        """Return the weight of a group, on the scale of `CgroupLimits`; 0 without such a group."""
        ...

    def inhabitants(self, path: str) -> set[int]:
        """Return the processes in the group and its child groups."""
        ...

    def occupied(self, path: str) -> bool:
        """Return True if the group itself has processes."""
        ...

    def block_io(self) -> BlockIo | None:
        """Return the block I/O controller; None if the kernel does not have it here."""
        ...

    def memory_used(self, path: str) -> int:
        """Return the working set in bytes; 0 without such a group."""
        ...

    def memory_resident(self, path: str) -> int:
        """Return the anonymous memory in bytes; 0 without such a group."""
        ...

    def cpu_used(self, path: str) -> float:
        """Return the core-seconds of the group and its child groups since its creation; 0 without such a group."""
        ...

    def oom_kills(self, path: str) -> int:
        """Return the number of processes of the group killed by the OOM killer."""
        ...


def make_folder(folder: Path) -> bool:
    """Create a group and its parents; return True if it is new. Raises CgroupError."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise CgroupError(f"{folder}: {error.strerror}") from error
    return True


def attempt(file: Path, text: str) -> None:
    """Write to a file of a group. Raises CgroupError."""
    try:
        file.write_text(text)
    except OSError as error:
        raise CgroupError(f"{file}: {text}: {error.strerror}") from error


def number(file: Path) -> int:
    """Return a number from a file; 0 without one."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def field(file: Path, name: str) -> int:
    """Return a number from a file of names and values; 0 without one."""
    try:
        text = file.read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        found, _, value = line.partition(" ")
        if found == name:
            return int(value)
    return 0


def processes(folders: Sequence[Path]) -> set[int]:
    """Return the processes in these directories and below."""
    found: set[int] = set()
    for top in folders:
        for folder in (top, *below(top)):
            try:
                found.update(map(int, (folder / "cgroup.procs").read_text().split()))
            except OSError:
                continue  # removed in the meantime
    return found


def allowed_cpus(found: Iterable[int]) -> CPUSet:
    """Return the CPUs that any of these processes may run on."""
    lists: set[bytes] = set()
    for process in found:
        try:
            with open(f"/proc/{process}/status", "rb", buffering=0) as status:
                _, _, rest = status.read().partition(b"\nCpus_allowed_list:\t")
        except OSError:
            continue  # exited in the meantime
        lists.add(rest.partition(b"\n")[0])
    return CPUSet(cpu for text in lists for cpu in CPUSet.parse(text.decode()))


def cpus_of(group: Path) -> CPUSet:
    """Return the CPUs of a group; empty without such a group."""
    try:
        with open(f"{group}/cpuset.cpus") as file:
            return CPUSet.parse(file.read().strip())
    except OSError:
        return CPUSet()


def give_cpus(group: Path, cpus: CPUSet) -> None:
    """Set the CPUs of a group, unless it has been removed. Raises CgroupError."""
    try:
        attempt(group / "cpuset.cpus", str(cpus))
    except CgroupError:
        # The container may have ended between the listing and the write.
        if group.exists():
            raise


def page_size(name: str) -> str:
    """Return the kernel's name of a huge page size: 2MB for 2Mi."""
    return name.removesuffix("i") + "B"


def inhabited(folder: Path) -> bool:
    """Return True if this group itself has a process."""
    try:
        return bool((folder / "cgroup.procs").read_text().strip())
    except OSError:
        return False


def below(folder: Path) -> list[Path]:
    """Return all groups below this one, parents first. Opens none of the dozens of files in a group."""
    try:
        with os.scandir(folder) as entries:
            inner = [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [group for entry in inner for group in (entry, *below(entry))]


def rmdir_tree(folder: Path) -> bool:
    """Remove a group and its child groups; False if one is still in use."""
    try:
        # Children first: the kernel removes only groups without children.
        for group in (*reversed(below(folder)), folder):
            # The runtime may remove a group during the walk. The groups above it remain to be removed here.
            with suppress(FileNotFoundError):
                group.rmdir()
    except OSError:
        return False
    return True
