"""Sets of CPU numbers in Linux list format, `0-3,7`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?", re.ASCII)
# No kernel has more; keeps "0-99999999999" from filling memory.
_MAX_CPU = 1 << 16
_MAX_LENGTH = 64 * 1024  # characters


class CPUSet:
    """An immutable set of CPU numbers that prints in its shortest form."""

    __slots__ = ("_cpus",)

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        self._cpus = frozenset(cpus)

    @staticmethod
    def parse(text: str) -> CPUSet:
        """Parse `0-3,7`; the empty text is the empty set. Raises ValueError."""
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"CPU list is longer than {_MAX_LENGTH} characters")
        cpus: set[int] = set()
        named = 0
        for part in text.split(",") if text else ():
            match = _RANGE.fullmatch(part)
            if match is None:
                raise ValueError(f"invalid CPU range {part!r} in {text!r}")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first or last >= _MAX_CPU:
                raise ValueError(f"invalid CPU range {part!r} in {text!r}")
            named += last - first + 1
            if named > _MAX_CPU:  # ranges that overlap: 8 KB of them would cost a second
                raise ValueError(f"CPU list names more than {_MAX_CPU} CPUs")
            cpus.update(range(first, last + 1))
        return CPUSet(cpus)

    def __str__(self) -> str:
        parts: list[str] = []
        run: list[int] = []
        for cpu in [*sorted(self._cpus), -1]:
            if run and cpu != run[-1] + 1:
                parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
                run = []
            run.append(cpu)
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"CPUSet({str(self)!r})"

    def __or__(self, other: CPUSet) -> CPUSet:
        return CPUSet(self._cpus | other._cpus)

    def __and__(self, other: CPUSet) -> CPUSet:
        return CPUSet(self._cpus & other._cpus)

    def __sub__(self, other: CPUSet) -> CPUSet:
        return CPUSet(self._cpus - other._cpus)

    def __le__(self, other: CPUSet) -> bool:
        return self._cpus <= other._cpus

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CPUSet) and self._cpus == other._cpus

    def __hash__(self) -> int:
        return hash(self._cpus)

    def __contains__(self, cpu: int) -> bool:
        return cpu in self._cpus

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._cpus))

    def __len__(self) -> int:
        return len(self._cpus)
