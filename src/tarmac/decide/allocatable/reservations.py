"""Reservations of a node as configured: by amount, by CPU numbers, by eviction thresholds.

Each amount names its source. The effect on pods is computed in `ledger`, and only there. All amounts are integers: CPUs
in thousandths, every other resource in units.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tarmac.base.cpuset import CPUSet
from tarmac.base.quantity import Quantity
from tarmac.decide.allocatable.thresholds import Threshold
from tarmac.decide.amounts import CPU, MEMORY

STORAGE: Final = "ephemeral-storage"
PID: Final = "pid"
_MAX_AMOUNT: Final = 2**63 - 1
_MAX_SHOWN: Final = 100
RESERVABLE: Final = (CPU, MEMORY, STORAGE, PID)
"""Resources that can be reserved by amount."""
SYSTEM: Final = "system"
KUBE: Final = "kube"
EVICTION: Final = "eviction"
RESERVED_CPUS: Final = "reservedSystemCPUs"


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reserved amount and its source: `file`, `flag`."""

    amount: int
    source: str = ""


NOTHING: Final = Reserved(0)


@dataclass(frozen=True, slots=True)
class Holding:
    """A part of a resource that pods may not request: its purpose, amount and source."""

    purpose: str
    amount: int
    source: str


@dataclass(frozen=True, slots=True)
class Reservations:
    """The reservations of a node. `reserved_cpus`: the CPUs reserved by number, if there are any."""

    system: Mapping[str, Reserved] = field(default_factory=dict[str, Reserved])
    kube: Mapping[str, Reserved] = field(default_factory=dict[str, Reserved])
    eviction: tuple[Threshold, ...] = ()
    reserved_cpus: CPUSet | None = None
    oversubscription: int = 0

    def holdings(self, resource: str) -> tuple[Holding, ...]:
        """Return the reservations for system and agent. CPUs reserved by number replace both amounts."""
        if resource == CPU and self.reserved_cpus is not None:
            return (Holding(SYSTEM, 1000 * len(self.reserved_cpus), RESERVED_CPUS),)
        pools = ((SYSTEM, self.system.get(resource, NOTHING)), (KUBE, self.kube.get(resource, NOTHING)))
        return tuple(Holding(purpose, each.amount, each.source) for purpose, each in pools if each.amount)

    def held(self, resource: str) -> int:
        """Return the total amount of these reservations."""
        return sum(each.amount for each in self.holdings(resource))


def reserved_amounts(texts: Mapping[str, str], source: str) -> dict[str, Reserved]:
    """Parse configured reservations. Raises ValueError with kubelet's messages."""
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
        found[resource] = Reserved(_milli(quantity) if resource == CPU else quantity.value(), source)
    return found


def _quoted(text: str) -> str:
    """Quote the text on one line, cut to `_MAX_SHOWN` characters."""
    return json.dumps(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…", ensure_ascii=False)


def oversubscription_of(text: str | int | float) -> int:
    """Parse oversubscribed CPUs into thousandths: `1.5`, `1500m`. Raises ValueError."""
    quantity = Quantity.parse(text)
    if quantity.nanos < 0:
        raise ValueError(f"{text!r} must not be negative")
    if _milli(quantity) > _MAX_AMOUNT:
        raise ValueError(f"{text!r} is more than can be counted")
    return _milli(quantity)


def _milli(quantity: Quantity) -> int:
    """Convert to thousandths, rounding half up as kubelet rounds reservations."""
    micros = -(-quantity.nanos // 1000)
    return (micros + 500) // 1000
