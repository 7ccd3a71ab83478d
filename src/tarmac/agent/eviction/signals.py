"""Eviction signals: available amounts of memory, disks and processes, with their capacity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tarmac.agent.stats.hostusage import MachineStats, file_system
from tarmac.decide.allocatable.thresholds import (
    ALLOCATABLE_MEMORY,
    IMAGEFS_AVAILABLE,
    IMAGEFS_INODES,
    MEMORY_AVAILABLE,
    NODEFS_AVAILABLE,
    NODEFS_INODES,
    PID_AVAILABLE,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Available amount and capacity."""

    available: int
    capacity: int


Readings = dict[str, Reading]


class EvictionSignals:
    """Reads the signals. `root` is on the node's file system, `image_root` returns a path on that of images.

    `pods_limit` returns the memory limit of all pods in bytes, `pods_memory` their usage.
    """

    def __init__(
        self,
        machine: MachineStats,
        root: Path,
        image_root: Callable[[], str],
        pods_limit: Callable[[], int],
        pods_memory: Callable[[], int],
    ) -> None:
        self._machine = machine
        self._root = root
        self._image_root = image_root
        self._pods_limit = pods_limit
        self._pods_memory = pods_memory

    def read(self) -> Readings:
        """Return current readings; an unreadable file system has none."""
        memory, for_pods = self._machine.memory(), self._pods_limit()
        most, running = self._machine.processes()
        return {
            MEMORY_AVAILABLE: Reading(memory.available, memory.total),
            ALLOCATABLE_MEMORY: Reading(max(0, for_pods - self._pods_memory()), for_pods),
            PID_AVAILABLE: Reading(max(0, most - running), most),
            **_disk(self._root, NODEFS_AVAILABLE, NODEFS_INODES),
            **_disk(self._image_root() or self._root, IMAGEFS_AVAILABLE, IMAGEFS_INODES),
        }


def _disk(path: str | Path, space: str, inodes: str) -> Readings:
    try:
        found = file_system(path)
    except OSError:
        return {}
    readings = {space: Reading(found.available, found.capacity)}
    if found.inodes:  # some file systems do not count them
        readings[inodes] = Reading(found.inodes_free, found.inodes)
    return readings
