"""Notes of a conversion, and copying of fields: those that are not copied are noted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tarmac.api.schema import JsonObject

NOTHING: Final[Mapping[str, str | None]] = {}


@dataclass(slots=True)
class Notes:
    """Notes about the fields of one object, in the order of the conversion."""

    lines: list[str] = field(default_factory=list[str])

    def add(self, path: str, text: str) -> None:
        """Note something about a field."""
        self.lines.append(f"{path}: {text}")

    def left(self, path: str, reason: str = "") -> None:
        """Note a field that is left out."""
        self.add(path, f"left out: {reason}" if reason else "left out: a Workload has no equivalent")

    def copy(
        self, source: JsonObject, path: str, fields: Collection[str], known: Mapping[str, str | None] = NOTHING
    ) -> JsonObject:
        """Return the copied fields of a part, and note every other field.

        `known` has the reasons of some; None for those that the caller converts. Empty values are equal to absent ones.
        """
        made = {name: source[name] for name in fields if not _is_empty(source.get(name))}
        for name, value in source.items():
            if name not in fields and not _is_empty(value) and known.get(name, "") is not None:
                self.left(f"{path}.{name}", known.get(name) or "")
        return made


def _is_empty(value: Any) -> bool:
    return value is None or value == {} or value == [] or value == ""
