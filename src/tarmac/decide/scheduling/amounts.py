"""Resource amounts as integers, fast to compare: CPU in millicores, all other resources in units.

`Amounts` are these integers. Exact amounts, as in objects, are a `ResourceList`. A quantity may be as large as 1e1000,
so an amount is limited to 64 bits, as in Kubernetes: a ratio of amounts, or of their sums, is always a finite float.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarmac.api.shared import ResourceList
from tarmac.base.quantity import NANO, Format, Quantity

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"

Amounts = dict[str, int]

_MOST: Final = 2**63 - 1


def whole(resource: str, quantity: Quantity) -> int:
    """Return the amount that a node is charged, rounded up, within 64 bits."""
    return max(-_MOST, min(_MOST, quantity.milli() if resource == CPU else quantity.value()))


def amounts_of(resources: Mapping[str, str | int | float] | None) -> Amounts:
    """Return a resource list as integers, without zeros."""
    return whole_amounts({resource: Quantity.parse(amount) for resource, amount in (resources or {}).items()})


def whole_amounts(exact: ResourceList) -> Amounts:
    """Return exact amounts as integers, without zeros."""
    numbers = {resource: whole(resource, amount) for resource, amount in exact.items()}
    return {resource: number for resource, number in numbers.items() if number}


def add(total: Amounts, more: Mapping[str, int]) -> None:
    """Add amounts in place."""
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount


def shown(resource: str, amount: int) -> str:
    """Return the amount as a quantity: 1500m, 2Gi, 3."""
    if resource == CPU:
        return str(Quantity(amount * (NANO // 1000)))
    binary = resource == MEMORY or resource.endswith("storage") or resource.startswith("hugepages-")
    return str(Quantity.of(amount, Format.BINARY_SI if binary else Format.DECIMAL_SI))
