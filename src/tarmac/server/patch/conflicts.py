"""Conflicts of an apply: fields that other managers own, and the error for the client."""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.status import Conflict
from tarmac.server.patch.elements import display
from tarmac.server.patch.entries import FieldManager

# A configuration of thousands of fields would otherwise be answered with megabytes of causes.
_MAX_SHOWN = 200


class FieldConflict(NamedTuple):
    """One field that another manager owns."""

    manager: FieldManager
    path: tuple[str, ...]

    @property
    def field(self) -> str:
        """The path in readable form."""
        return "".join(display(element) for element in self.path)


def conflict_error(conflicts: list[FieldConflict]) -> Conflict:
    """Return the Conflict of an apply, with one cause per field."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {taken.manager}", "field": taken.field}
        for taken in conflicts[:_MAX_SHOWN]
    ]
    return Conflict(_message(conflicts), details={"causes": causes})


def _message(conflicts: list[FieldConflict]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0].manager}: {conflicts[0].field}"
    fields_of: dict[FieldManager, list[str]] = {}
    for taken in conflicts[:_MAX_SHOWN]:
        fields_of.setdefault(taken.manager, []).append(taken.field)
    lines: list[str] = []
    for manager in sorted(fields_of):
        lines.append(f"conflicts with {manager}:")
        lines.extend(f"- {field}" for field in fields_of[manager])
    if len(conflicts) > _MAX_SHOWN:
        lines.append("and more")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
