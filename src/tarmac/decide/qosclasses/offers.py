"""Computes the types and classes that a node offers, from the discovered ones and the configuration. Pure.

A type may be discovered with several owners: a runtime that announces it, the agent's own file, the runtime's file, the
kernel. The first owner wins. A type that one owner announces both for pods and for containers is offered at neither
level, since a request for it would be ambiguous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, POD_LEVEL, OfferedClasses, OfferedType
from tarmac.api.schema import JsonObject

Owner = Literal["native", "agent", "runtime"]
"""The component that applies classes: a runtime with native support, the agent, or a runtime with its own file."""

Level = Literal["pod", "container"]
Capacities = Mapping[str, int | None]
"""Capacity of each class; None: unlimited."""


@dataclass(frozen=True, slots=True)
class FoundType:
    """A type as discovered with one owner."""

    name: str
    owner: Owner
    classes: Capacities
    level: Level = "container"
    immutable: bool = False


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The offered types by name; `conflicts` are types discovered at both levels."""

    types: Mapping[str, FoundType] = field(default_factory=dict[str, FoundType])
    conflicts: frozenset[str] = frozenset()

    def owner(self, kind: str) -> Owner | None:
        """Return the owner of a type; None if it is not offered."""
        found = self.types.get(kind)
        return found.owner if found else None

    def offers(self, kind: str, name: str) -> bool:
        """Return True if a class is offered."""
        found = self.types.get(kind)
        return found is not None and name in found.classes

    @property
    def pod_types(self) -> frozenset[str]:
        """The types offered for whole pods."""
        return frozenset(name for name, each in self.types.items() if each.level == "pod")

    @property
    def offered(self) -> OfferedClasses:
        """The offered classes without owners, as published outside the agent."""
        return OfferedClasses(self._at("pod"), self._at("container"))

    def _at(self, level: Level) -> dict[str, OfferedType]:
        return {
            name: OfferedType(each.immutable, each.classes) for name, each in self.types.items() if each.level == level
        }


NOTHING_FOUND: Final = Catalogue()


def catalogue(found: Sequence[FoundType], wanted: Mapping[str, Capacities | None]) -> Catalogue:
    """Select the offered types from `found`, by order of owners. `wanted` restricts classes and capacities."""
    first: dict[str, FoundType] = {}
    conflicts: set[str] = set()
    for each in found:
        known = first.setdefault(each.name, each)
        if known.owner == each.owner and known.level != each.level:
            conflicts.add(each.name)
    kept = {name: _restricted(each, wanted.get(name)) for name, each in first.items() if name not in conflicts}
    return Catalogue({name: each for name, each in kept.items() if each.classes}, frozenset(conflicts))


def published(offered: OfferedClasses) -> JsonObject:
    """Return the offer for the Node's status: sorted by name, without empty or default values."""
    found = {POD_LEVEL: _listed(offered.pod), CONTAINER_LEVEL: _listed(offered.container)}
    return {field: types for field, types in found.items() if types}


def _restricted(found: FoundType, wanted: Capacities | None) -> FoundType:
    if wanted is None:
        return found
    classes = {name: _fewer(found.classes[name], most) for name, most in wanted.items() if name in found.classes}
    return FoundType(found.name, found.owner, classes, found.level, found.immutable)


def _fewer(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _listed(types: Mapping[str, OfferedType]) -> list[JsonObject]:
    return [
        {
            "name": name,
            **({"immutable": True} if each.immutable else {}),
            "classes": [
                {"name": one, **({} if most is None else {"capacity": most})}
                for one, most in sorted(each.classes.items())
            ],
        }
        for name, each in sorted(types.items())
    ]
