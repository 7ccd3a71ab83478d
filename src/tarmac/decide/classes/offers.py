"""Which types and classes a node offers, out of what was found on it and what it was told to offer. Pure.

A type may be found with several owners: a runtime that announces it, the agent's own file, the runtime's file, the
kernel. The first of them has it. A type that somebody announces both for pods and for containers is offered at neither
level, since nobody could say what asking for it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, POD_LEVEL, OfferedClasses, OfferedType
from tarmac.api.schema import JsonObject

Owner = Literal["native", "agent", "runtime"]
"""Who puts containers into classes: a runtime that speaks of them, the agent, a runtime with a file of its own."""

Level = Literal["pod", "container"]
Capacities = Mapping[str, int | None]
"""How many each class takes; None: as many as come."""


@dataclass(frozen=True, slots=True)
class FoundType:
    """A type, as one owner has it."""

    name: str
    owner: Owner
    classes: Capacities
    level: Level = "container"
    immutable: bool = False


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What the node offers, by type; `conflicts` are types that were found at both levels."""

    types: Mapping[str, FoundType] = field(default_factory=dict[str, FoundType])
    conflicts: frozenset[str] = frozenset()

    def owner(self, kind: str) -> Owner | None:
        """Who has a type; None: nobody."""
        found = self.types.get(kind)
        return found.owner if found else None

    def offers(self, kind: str, name: str) -> bool:
        """Whether a class can be had."""
        found = self.types.get(kind)
        return found is not None and name in found.classes

    @property
    def pod_types(self) -> frozenset[str]:
        """Types that are offered for whole pods."""
        return frozenset(name for name, each in self.types.items() if each.level == "pod")

    @property
    def offered(self) -> OfferedClasses:
        """The same without the owners, as everybody else knows it."""
        return OfferedClasses(self._at("pod"), self._at("container"))

    def _at(self, level: Level) -> dict[str, OfferedType]:
        return {
            name: OfferedType(each.immutable, each.classes) for name, each in self.types.items() if each.level == level
        }


NOTHING_FOUND: Final = Catalogue()


def catalogue(found: Sequence[FoundType], wanted: Mapping[str, Capacities | None]) -> Catalogue:
    """What is offered of what was `found`, first owners first. `wanted` says which classes of a type, and how many."""
    first: dict[str, FoundType] = {}
    conflicts: set[str] = set()
    for each in found:
        known = first.setdefault(each.name, each)
        if known.owner == each.owner and known.level != each.level:
            conflicts.add(each.name)
    kept = {name: _restricted(each, wanted.get(name)) for name, each in first.items() if name not in conflicts}
    return Catalogue({name: each for name, each in kept.items() if each.classes}, frozenset(conflicts))


def published(offered: OfferedClasses) -> JsonObject:
    """As the status of the Node says it: by name, and nothing that is empty or usual."""
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
