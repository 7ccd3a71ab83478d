"""What the rest of the agent may ask of control groups, whichever version the kernel offers, and finding out which.

Paths are as runtimes take them: absolute, below the hierarchy's top. Every call may be repeated. A machine with both
versions (a hybrid) has its controllers on v1; then v1 is what counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tarmac.agent.model.limits import Limits
from tarmac.base.cpuset import CPUSet
from tarmac.decide.classes.blockio import BlockioParameters


class CgroupError(Exception):
    """The kernel refuses. The message says what it was asked."""


class BlockIo(Protocol):
    """What groups are allowed of the disks. On version 1 it holds for the processes of a group, not for those below."""

    def has(self, path: str, parameters: BlockioParameters) -> bool:
        """Whether the kernel has this, and no other throttle, for a group."""
        ...

    def put(self, path: str, parameters: BlockioParameters) -> None:
        """Make it so; what is so already is not written. Raises CgroupError."""
        ...


class Hierarchy(Protocol):
    """Control groups of one machine."""

    def make(self, path: str) -> bool:
        """Make the group and those above it, ready to hold processes; whether it is new. Raises CgroupError."""
        ...

    def limit(self, path: str, limits: Limits) -> None:
        """Set limits on a group. Raises CgroupError."""
        ...

    def entrances(self, path: str) -> Sequence[Path]:
        """The files of a group that move a process into it, with all its threads, when its id is written to them."""
        ...

    def widen(self, path: str) -> None:
        """Let a group run wherever the one above it does. Raises CgroupError."""
        ...

    def pin(self, path: str, cpus: CPUSet, inner: Mapping[str, CPUSet]) -> None:
        """Let a group run on these processors, and groups right below it on others of them. Raises CgroupError.

        What is below and not named runs on all of them. At no time does a process run where it neither ran nor may.
        """
        ...

    def allowed(self, path: str) -> CPUSet:
        """The processors that processes of this group and of those below may run on, as the kernel tells it of each."""
        ...

    def exists(self, path: str) -> bool: ...

    def children(self, path: str) -> Sequence[str]:
        """Names of the groups right below."""
        ...

    def kill(self, path: str) -> int:
        """Kill every process in the group and below; how many there were."""
        ...

    def remove(self, path: str) -> bool:
        """Remove the group and those below; False while processes are still leaving it."""
        ...

    def shares(self, path: str) -> int:
        """The weight of a group, as `Limits` has it; 0 when there is no such group."""
        ...

    def inhabitants(self, path: str) -> set[int]:
        """Processes in the group and below."""
        ...

    def occupied(self, path: str) -> bool:
        """Whether there are processes in the group itself, not only below."""
        ...

    def block_io(self) -> BlockIo | None:
        """What groups are allowed of the disks; None where the kernel does not have that controller here."""
        ...

    def memory_used(self, path: str) -> int:
        """Bytes that could not be reclaimed at once (the working set); 0 when there is no such group."""
        ...

    def memory_resident(self, path: str) -> int:
        """Bytes that belong to no file; 0 when there is no such group."""
        ...

    def cpu_used(self, path: str) -> float:
        """Core-seconds of the group and those below since it was made; 0 when there is no such group."""
        ...

    def oom_kills(self, path: str) -> int:
        """How many processes of the group the kernel has killed for want of memory."""
        ...


def mounted(mountinfo: Path = Path("/proc/self/mountinfo")) -> Hierarchy:
    """The hierarchy of this machine. Raises CgroupError when none can hold limits."""
    from tarmac.agent.cgroups.v1 import V1
    from tarmac.agent.cgroups.v2 import V2

    by_controller: dict[str, Path] = {}
    unified: list[Path] = []
    for line in mountinfo.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        point = Path(before.split(" ")[4])
        if kind == "cgroup2":
            unified.append(point)
        elif kind == "cgroup":
            for option in options.split(","):
                by_controller.setdefault(option, point)
    if "memory" in by_controller and "cpu" in by_controller:
        return V1({**by_controller, **{str(point): point for point in unified}})  # runtimes make groups in both
    for point in unified:
        if {"cpu", "memory"} <= set((point / "cgroup.controllers").read_text().split()):
            return V2(point)
    raise CgroupError("no control groups with the controllers cpu and memory are mounted")


def make_folder(folder: Path) -> bool:
    """Make a group and those above it; whether it is new. Raises CgroupError."""
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
    """A number kept in a file; 0 when there is none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def field(file: Path, name: str) -> int:
    """A number in a file of names and values; 0 when there is none."""
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
    """Processes in these folders and below."""
    found: set[int] = set()
    for top in folders:
        for folder in (top, *below(top)):
            try:
                found.update(map(int, (folder / "cgroup.procs").read_text().split()))
            except OSError:
                continue  # gone meanwhile
    return found


def allowed_cpus(found: Iterable[int]) -> CPUSet:
    """The processors that any of these processes may run on."""
    lists: set[bytes] = set()
    for process in found:
        try:
            with open(f"/proc/{process}/status", "rb", buffering=0) as status:
                _, _, rest = status.read().partition(b"\nCpus_allowed_list:\t")
        except OSError:
            continue  # ended meanwhile
        lists.add(rest.partition(b"\n")[0])
    return CPUSet(cpu for text in lists for cpu in CPUSet.parse(text.decode()))


def cpus_of(group: Path) -> CPUSet:
    """The processors that a group is given; none when there is no such group."""
    try:
        with open(f"{group}/cpuset.cpus") as file:
            return CPUSet.parse(file.read().strip())
    except OSError:
        return CPUSet()


def give_cpus(group: Path, cpus: CPUSet) -> None:
    """Give a group these processors. One that is gone needs none. Raises CgroupError."""
    try:
        attempt(group / "cpuset.cpus", str(cpus))
    except CgroupError:
        if group.exists():
            raise


def page_size(name: str) -> str:
    """A size of huge pages as the kernel names files by it: 2MB of 2Mi."""
    return name.removesuffix("i") + "B"


def inhabited(folder: Path) -> bool:
    """Whether there is a process in this very group."""
    try:
        return bool((folder / "cgroup.procs").read_text().strip())
    except OSError:
        return False


def below(folder: Path) -> list[Path]:
    """Groups below this one, outermost first. Of the dozens of files in a group none is looked at."""
    try:
        with os.scandir(folder) as entries:
            inner = [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [group for entry in inner for group in (entry, *below(entry))]


def rmdir_tree(folder: Path) -> bool:
    """Remove a group and those below; False when one is still in use."""
    try:
        for group in (*reversed(below(folder)), folder):
            group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
