"""Classes of QoS-class resources, for runtimes that speak of them. A stock runtime announces none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuntimeClassType:
    """A type that the runtime has. `classes`: how many each takes at once, 0 for as many as come."""

    name: str
    classes: Mapping[str, int]
    immutable: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeClasses:
    """Everything that a runtime announces, for whole pods and for containers."""

    pod: tuple[RuntimeClassType, ...] = ()
    container: tuple[RuntimeClassType, ...] = ()
