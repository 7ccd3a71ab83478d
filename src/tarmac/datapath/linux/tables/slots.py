"""Tables of slots in the kernel: the mark of a node, or of a link to a Network, for each hash of a client.

All tables are one map, whose keys are the number of a table and a slot. Ports with equal slots share a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

FIRST_SLOT: Final = 0x100000
SLOTS: Final = 256
_PARTS: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class SlotTable:
    """One table, by its number as text, and its marks, each of which has an equal share of the slots."""

    number: str
    marks: tuple[int, ...]

    def content(self) -> Mapping[str, str]:
        """Return the elements of the map."""
        count = len(self.marks)
        return {
            f"{self.number} . {FIRST_SLOT + slot:#x}": f"{self.marks[slot * count // SLOTS]:#x}"
            for slot in range(SLOTS)
        }


class SlotTables:
    """The tables of one state. `elements` are parts of the map `slots`."""

    def __init__(self) -> None:
        self.elements: dict[str, SlotTable] = {}
        self._numbers: dict[tuple[int, ...], str] = {}

    def number(self, marks: tuple[int, ...]) -> str:
        """Return the number of a table. It is added, unless an equal one exists."""
        found = self._numbers.get(marks)
        if found is None:
            wanted = _preferred(marks)
            # By content: a changed table gets another number, so its slots and its users change in one transaction.
            while f"slots#{(found := _written(wanted))}" in self.elements:
                wanted += 1
            self._numbers[marks] = found
            self.elements[f"slots#{found}"] = SlotTable(found, marks)
        return found


def _written(number: int) -> str:
    return f"{(number >> 16 & _PARTS) + 1:x}:{(number & _PARTS) + 1:x}"


@lru_cache(maxsize=4096)
def _preferred(marks: tuple[int, ...]) -> int:
    return int.from_bytes(blake2b(repr(marks).encode(), digest_size=4).digest())
