"""Node properties that volumes need, and sizes derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity


@dataclass(frozen=True, slots=True)
class VolumeNode:
    """The node's name, labels and allocatable resources, from its Node object."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    allocatable: Mapping[str, str] = field(default_factory=dict[str, str])


Facts = Callable[[], VolumeNode]
"""Returns the current facts."""


def memory_size(pod: JsonObject, source: JsonObject, allocatable: Mapping[str, str]) -> int | None:
    """Return the size of an `emptyDir` in memory: the least of its limit, the pod's memory and the node's."""
    stated = (
        Quantity.parse(source["sizeLimit"]).value() if source.get("sizeLimit") else 0,
        _memory_limit(pod["spec"]),
        Quantity.parse(allocatable["memory"]).value() if "memory" in allocatable else 0,
    )
    return min((each for each in stated if each > 0), default=None)


def _memory_limit(spec: JsonObject) -> int:
    """Return the limit of the whole pod; 0 if any container has none."""
    whole = _limit(spec)
    if whole:
        return whole
    beside = [_limit(each) for each in spec.get("containers") or ()]
    ahead: list[int] = []
    for each in spec.get("initContainers") or ():
        (beside if each.get("restartPolicy") == "Always" else ahead).append(_limit(each))
    return max([sum(beside), *ahead]) if all((*beside, *ahead)) else 0


def _limit(owner: Mapping[str, Any]) -> int:
    stated = ((owner.get("resources") or {}).get("limits") or {}).get("memory")
    return Quantity.parse(stated).value() if stated else 0
