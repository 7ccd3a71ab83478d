"""Levels: a node's free capacity as one number, by which the nodes of a pool are kept in buckets.

From the highest bits to the lowest: the bit length of free CPU, of free memory and of the number of free exclusive
CPUs, and one bit for each class without a free place. A higher number is an emptier node. The bucket alone tells if a
node is certainly too full for a pod.
"""

from __future__ import annotations

from typing import Final

FULL: Final = -1
"""The level of a node that takes no pod at all."""

UNLIMITED: Final = 1 << 40
"""Number of exclusive CPUs on a node that does not count them."""

CLASSES: Final = 8
"""Number of limited classes that a level encodes."""

_EXCLUSIVE_SHIFT: Final = CLASSES
_MEMORY_SHIFT: Final = _EXCLUSIVE_SHIFT + 4
_CPU_SHIFT: Final = _MEMORY_SHIFT + 6
_EXCLUSIVE: Final = 15 << _EXCLUSIVE_SHIFT
_MEMORY: Final = 63 << _MEMORY_SHIFT


def level_of(cpu: int, memory: int, exclusive: int = UNLIMITED, full: int = 0) -> int:
    """Return the level for these free amounts. `full`: a bit for each class without a free place."""
    return (
        (cpu.bit_length() if cpu > 0 else 0) << _CPU_SHIFT
        | (min(63, memory.bit_length()) if memory > 0 else 0) << _MEMORY_SHIFT
        | (min(15, exclusive.bit_length()) if exclusive > 0 else 0) << _EXCLUSIVE_SHIFT
        | full
    )


class LeastLevel:
    """The levels that may have room for a pod of some size."""

    __slots__ = ("_exclusive", "_memory", "smallest")

    def __init__(self, cpu: int, memory: int, exclusive: int) -> None:
        level = level_of(cpu, memory, exclusive)
        self.smallest = level >> _CPU_SHIFT << _CPU_SHIFT  # lower levels have too little CPU
        self._memory = level & _MEMORY
        self._exclusive = level & _EXCLUSIVE

    def misses(self, level: int, classes: int) -> bool:
        """Return True if a level with enough CPU lacks room otherwise. `classes`: bits of the required classes."""
        return level & _MEMORY < self._memory or level & _EXCLUSIVE < self._exclusive or level & classes != 0
