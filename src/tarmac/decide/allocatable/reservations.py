"""Capacity, reservations and oversubscription of a node, and the two amounts that follow from them.

    schedulable = capacity - system - kube - eviction + oversubscription (processors only)
    enforced    = capacity - system - kube

Schedulable is what the node reports as allocatable and admits pods by; enforced is what the cgroup above all pods is
given. Oversubscription lends out processors that are reserved but idle: it moves the first, never the second, and may
lift the first above the capacity. A list of processors reserved by number replaces what is reserved by amount. All
amounts are whole: processors in thousandths, everything else in units.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tarmac.base.cpuset import CPUSet
from tarmac.base.quantity import Quantity
from tarmac.decide.allocatable.thresholds import MEMORY_AVAILABLE, NODEFS_AVAILABLE, Threshold
from tarmac.decide.scheduling.amounts import CPU, MEMORY, Amounts, shown

STORAGE: Final = "ephemeral-storage"
PID: Final = "pid"
_HUGE_PAGES: Final = "hugepages-"
_HELD_BY_SIGNAL: Final = {MEMORY_AVAILABLE: MEMORY, NODEFS_AVAILABLE: STORAGE}
_LARGEST: Final = 2**63 - 1
_LONGEST_SHOWN: Final = 100
RESERVABLE: Final = (CPU, MEMORY, STORAGE, PID)
"""What can be held back by an amount."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """An amount that is held back, and who said so: `file`, `flag`."""

    amount: int
    said_by: str = ""


NOTHING: Final = Reserved(0)


@dataclass(frozen=True, slots=True)
class Reservations:
    """What pods may not count on. `reserved_cpus`: the processors that are reserved by number, if any are."""

    system: Mapping[str, Reserved] = field(default_factory=dict[str, Reserved])
    kube: Mapping[str, Reserved] = field(default_factory=dict[str, Reserved])
    eviction: tuple[Threshold, ...] = ()
    reserved_cpus: CPUSet | None = None
    oversubscription: int = 0

    def held(self, resource: str) -> int:
        """What the system and the agent keep for themselves."""
        if resource == CPU and self.reserved_cpus is not None:
            return 1000 * len(self.reserved_cpus)
        return self.system.get(resource, NOTHING).amount + self.kube.get(resource, NOTHING).amount


def schedulable(capacity: Mapping[str, int], reservations: Reservations) -> Amounts:
    """What pods may ask for in all."""
    eviction = held_for_eviction(capacity, reservations.eviction)
    found = {
        resource: max(
            0, amount - reservations.held(resource) - eviction.get(resource, 0) + _lent(resource, reservations)
        )
        for resource, amount in capacity.items()
    }
    if MEMORY in found:
        huge = sum(amount for resource, amount in capacity.items() if resource.startswith(_HUGE_PAGES))
        found[MEMORY] = max(0, found[MEMORY] - huge)
    return found


def enforced(capacity: Mapping[str, int], reservations: Reservations) -> Amounts:
    """What all pods together can get at most."""
    return {resource: max(0, amount - reservations.held(resource)) for resource, amount in capacity.items()}


def processes_for_pods(most: int, reservations: Reservations) -> int:
    """Of `most` processes that a machine can have, how many all pods together may: a tenth is left if nothing is said.

    With the last one gone nobody could log in, and no agent could start what ends a pod.
    """
    return most - (reservations.held(PID) or most // 10)


def held_for_eviction(capacity: Mapping[str, int], thresholds: tuple[Threshold, ...]) -> Amounts:
    """What stays free because pods would be evicted below it."""
    return {
        _HELD_BY_SIGNAL[each.signal]: each.least.of(capacity.get(_HELD_BY_SIGNAL[each.signal], 0))
        for each in thresholds
        if each.hard and each.signal in _HELD_BY_SIGNAL
    }


def objections(capacity: Mapping[str, int], reservations: Reservations) -> list[str]:
    """Why a node cannot start with these; empty when it can. Oversubscription makes no reservation right."""
    eviction = held_for_eviction(capacity, reservations.eviction)
    found: list[str] = []
    for resource, amount in capacity.items():
        reserved = reservations.held(resource) + eviction.get(resource, 0)
        if reserved > amount:
            found.append(
                f'Resource "{resource}" has a reservation of {shown(resource, reserved)} but capacity of '
                f"{shown(resource, amount)}. Expected capacity >= reservation."
            )
    return found


def reserved_amounts(texts: Mapping[str, str], said_by: str) -> dict[str, Reserved]:
    """A reservation as somebody wrote it. Raises ValueError in kubelets' words."""
    found: dict[str, Reserved] = {}
    for resource, text in texts.items():
        if resource not in RESERVABLE:
            raise ValueError(f"cannot reserve {_quoted(resource)} resource; there are {', '.join(RESERVABLE)}")
        try:
            quantity = Quantity.parse(text)
        except ValueError as error:
            raise ValueError(f'failed to parse quantity {_quoted(text)} for "{resource}" resource: {error}') from error
        if quantity.nanos < 0:
            raise ValueError(f'resource quantity for "{resource}" cannot be negative: {text}')
        found[resource] = Reserved(_milli(quantity) if resource == CPU else quantity.value(), said_by)
    return found


def _quoted(text: str) -> str:
    """As it was written, on one line and not too long."""
    return json.dumps(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…", ensure_ascii=False)


def oversubscription_of(text: str | int | float) -> int:
    """Processors lent out twice, in thousandths: `1.5`, `1500m`. Raises ValueError."""
    quantity = Quantity.parse(text)
    if quantity.nanos < 0:
        raise ValueError(f"{text!r} must not be negative")
    if _milli(quantity) > _LARGEST:
        raise ValueError(f"{text!r} is more than can be counted")
    return _milli(quantity)


def _milli(quantity: Quantity) -> int:
    """Thousandths, rounded half up as kubelets round what is reserved."""
    micros = -(-quantity.nanos // 1000)
    return (micros + 500) // 1000


def _lent(resource: str, reservations: Reservations) -> int:
    return reservations.oversubscription if resource == CPU else 0
