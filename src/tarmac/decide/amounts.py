"""Resource amounts as integers, fast to compare: CPU in millicores, all other resources in units.

`Amounts` are these integers. Exact amounts, as in objects, are a `ResourceList`. A quantity may be as large as 1e1000,
so an amount is limited to 64 bits, as in Kubernetes: a ratio of amounts, or of their sums, is always a finite float.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarmac.api.shared import ResourceList
from tarmac.base.quantity import NANO, Format, Quantity
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"

Amounts = dict[str, int]

_MILLI: Final = 1000
MAX_AMOUNT: Final = 2**63 - 1


def whole(resource: str, quantity: Quantity) -> int:
    """Return the amount that a node is charged, rounded up, within 64 bits."""
    return max(-MAX_AMOUNT, min(MAX_AMOUNT, quantity.milli() if resource == CPU else quantity.value()))


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


def described(resource: str, amount: int) -> str:
    """Return the amount with its unit, for messages: 15.7 CPUs, 2Gi of memory, 1 example.com/gpu."""
    if resource == PODS:
        return f"room for {amount} {'pod' if amount == 1 else 'pods'}"
    if resource == CPU:
        return f"{available(resource, amount)} {'CPU' if amount == _MILLI else 'CPUs'}"
    if resource == CPU_EXCLUSIVE:
        return f"{amount} {'exclusive CPU' if amount == 1 else 'exclusive CPUs'}"
    return f"{shown(resource, amount)} {'of ' if _is_binary(resource) else ''}{resource}"


def available(resource: str, amount: int) -> str:
    """Return the amount without its unit, for messages: 15.7, 2Gi, 3."""
    if resource != CPU:
        return shown(resource, amount)
    cpus, milli = divmod(amount, _MILLI)
    return f"{cpus}.{milli:03}".rstrip("0").rstrip(".")


def shown(resource: str, amount: int) -> str:
    """Return the amount as a quantity: 1500m, 2Gi, 3."""
    if resource == CPU:
        return str(Quantity(amount * (NANO // 1000)))
    return str(Quantity.of(amount, Format.BINARY_SI if _is_binary(resource) else Format.DECIMAL_SI))


def _is_binary(resource: str) -> bool:
    return resource == MEMORY or resource.endswith("storage") or resource.startswith("hugepages-")
