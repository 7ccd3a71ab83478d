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


class ContentNumbers:
    """Numbers of contents, as text; equal contents have one.

    They follow from the content: a changed one gets another number, so it and its users change in one transaction.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], str] = {}
        self._taken: set[str] = set()

    def number(self, content: tuple[object, ...]) -> str:
        """Return the number of a content."""
        found = self._numbers.get(content)
        if found is None:
            wanted = _preferred(content)
            while (found := _written(wanted)) in self._taken:
                wanted += 1
            self._numbers[content] = found
            self._taken.add(found)
        return found


class SlotTables:
    """The tables of one state. `elements` are parts of the map `slots`."""

    def __init__(self) -> None:
        self.elements: dict[str, SlotTable] = {}
        self._numbers = ContentNumbers()

    def number(self, marks: tuple[int, ...]) -> str:
        """Return the number of a table. It is added, unless an equal one exists."""
        number = self._numbers.number(marks)
        self.elements.setdefault(f"slots#{number}", SlotTable(number, marks))
        return number


def _written(number: int) -> str:
    return f"{(number >> 16 & _PARTS) + 1:x}:{(number & _PARTS) + 1:x}"


@lru_cache(maxsize=4096)
def _preferred(content: tuple[object, ...]) -> int:
    return int.from_bytes(blake2b(repr(content).encode(), digest_size=4).digest())
