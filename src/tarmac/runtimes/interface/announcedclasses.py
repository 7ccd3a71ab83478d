"""Classes of QoS-class resources, for runtimes that support them. A stock runtime announces none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuntimeClassType:
    """A type announced by the runtime. `classes`: the capacity of each class, 0 for unlimited."""

    name: str
    classes: Mapping[str, int]
    immutable: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeClasses:
    """All types announced by a runtime, for whole pods and for containers."""

    pod: tuple[RuntimeClassType, ...] = ()
    container: tuple[RuntimeClassType, ...] = ()
