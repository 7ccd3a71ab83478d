"""What is held back of a node, as somebody wrote it: by amount, by the numbers of processors, by eviction thresholds.

Each amount says who said it. What follows for pods is worked out in `ledger`, and only there. All amounts are whole:
processors in thousandths, everything else in units.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tarmac.base.cpuset import CPUSet
from tarmac.base.quantity import Quantity
from tarmac.decide.allocatable.thresholds import Threshold
from tarmac.decide.scheduling.amounts import CPU, MEMORY

STORAGE: Final = "ephemeral-storage"
PID: Final = "pid"
_LARGEST: Final = 2**63 - 1
_LONGEST_SHOWN: Final = 100
RESERVABLE: Final = (CPU, MEMORY, STORAGE, PID)
"""What can be held back by an amount."""
SYSTEM: Final = "system"
KUBE: Final = "kube"
EVICTION: Final = "eviction"
RESERVED_CPUS: Final = "reservedSystemCPUs"


@dataclass(frozen=True, slots=True)
class Reserved:
    """An amount that is held back, and who said so: `file`, `flag`."""

    amount: int
    said_by: str = ""


NOTHING: Final = Reserved(0)


@dataclass(frozen=True, slots=True)
class Holding:
    """A part of a resource that pods may not ask for: what it is held back for, how much, and who said so."""

    purpose: str
    amount: int
    source: str


@dataclass(frozen=True, slots=True)
class Reservations:
    """What pods may not count on. `reserved_cpus`: the processors that are reserved by number, if any are."""

    system: Mapping[str, Reserved] = field(default_factory=dict[str, Reserved])
    kube: Mapping[str, Reserved] = field(default_factory=dict[str, Reserved])
    eviction: tuple[Threshold, ...] = ()
    reserved_cpus: CPUSet | None = None
    oversubscription: int = 0

    def holdings(self, resource: str) -> tuple[Holding, ...]:
        """What the system and the agent keep of it. Processors reserved by number replace both amounts."""
        if resource == CPU and self.reserved_cpus is not None:
            return (Holding(SYSTEM, 1000 * len(self.reserved_cpus), RESERVED_CPUS),)
        pools = ((SYSTEM, self.system.get(resource, NOTHING)), (KUBE, self.kube.get(resource, NOTHING)))
        return tuple(Holding(purpose, each.amount, each.said_by) for purpose, each in pools if each.amount)

    def held(self, resource: str) -> int:
        """How much that is."""
        return sum(each.amount for each in self.holdings(resource))


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
