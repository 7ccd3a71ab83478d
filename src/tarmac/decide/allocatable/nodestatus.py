"""The ledger's sizes in the status of a Node: written by agents and simulated nodes, read by reports and explanations.

Oversubscription and the processors that may be had exclusively stand in the capacity, under names with a space: there,
and only there, stock kubectl shows them. What is reserved stands in `status.reservations`; a server that does not know
the field has it in an annotation. Whatever else is missing from allocatable on a node is told as unexplained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.allocatable.accounts import UNEXPLAINED, NodeLedger, NodeSize
from tarmac.decide.allocatable.ledger import huge_pages, unhealthy
from tarmac.decide.allocatable.reservations import EVICTION, KUBE, PID, SYSTEM, Holding
from tarmac.decide.scheduling.amounts import CPU, MEMORY, Amounts, amounts_of, shown, whole

CPU_OVERSUBSCRIPTION: Final = "cpu oversubscription"
CPU_EXCLUSIVE: Final = "cpu exclusive"
OPTIONAL: Final = (CPU_OVERSUBSCRIPTION, CPU_EXCLUSIVE)
"""Names in the capacity that are taken away when they no longer apply."""
_TOLD: Final = (SYSTEM, KUBE, EVICTION)
_UNKNOWN: Final = "the node does not say"


def sizes_in_status(ledger: NodeLedger) -> JsonObject:
    """`capacity`, `allocatable` and `reservations`. Processes are no resource of a Node, but may be reserved."""
    capacity = {name: shown(name, amount) for name, amount in _told(ledger.amounts("capacity")).items()}
    for each in ledger.resources:
        if each.resource == CPU and each.oversubscription:
            capacity[CPU_OVERSUBSCRIPTION] = stored_decimals(each.oversubscription)
        if each.exclusive is not None:
            capacity[CPU_EXCLUSIVE] = shown(CPU, each.exclusive.capacity)
    return {
        "capacity": capacity,
        "allocatable": {name: shown(name, amount) for name, amount in _told(ledger.amounts("allocatable")).items()},
        "reservations": [
            {
                "resource": each.resource,
                "for": held.purpose,
                "amount": shown(each.resource, held.amount),
                "source": held.source,
            }
            for each in ledger.resources
            for held in each.reserved
            if held.purpose in _TOLD and held.amount
        ],
    }


def three_decimals(milli: int) -> str:
    """Thousandths of a processor, as people read oversubscription: 1.500."""
    return f"{milli // 1000}.{milli % 1000:03}"


def stored_decimals(milli: int) -> str:
    """The same as a server gives it back: quantities lose what zeros they can.

    An agent that wrote another form would find a difference each time it looks, and write for ever.
    """
    return str(Quantity.parse(three_decimals(milli)))


def size_in_status(status: JsonObject, reservations: Sequence[JsonObject]) -> NodeSize:
    """The sizes that a Node tells. `reservations` are those of the field, or of the annotation that stands for it."""
    told: Mapping[str, str] = status.get("capacity") or {}
    capacity = amounts_of({name: amount for name, amount in told.items() if name not in OPTIONAL})
    allocatable = amounts_of(status.get("allocatable"))
    lent = whole(CPU, Quantity.parse(told.get(CPU_OVERSUBSCRIPTION, "0")))
    exclusive = told.get(CPU_EXCLUSIVE)
    return NodeSize(
        capacity,
        _holdings(capacity, allocatable, lent, reservations),
        lent,
        None if exclusive is None else whole(CPU, Quantity.parse(exclusive)),
        allocatable,
    )


def _holdings(
    capacity: Amounts, allocatable: Amounts, lent: int, reservations: Iterable[JsonObject]
) -> dict[str, list[Holding]]:
    """What a node says is held back, and what must be beside it: allocatable would be more otherwise."""
    found: dict[str, list[Holding]] = {}
    for each in reservations:
        resource = each["resource"]
        amount = whole(resource, Quantity.parse(each["amount"]))
        found.setdefault(resource, []).append(Holding(each["for"], amount, each.get("source") or ""))
    for resource, amount in capacity.items():
        held = found.setdefault(resource, [])
        if resource == MEMORY:
            held += huge_pages(capacity)
        rest = amount + (lent if resource == CPU else 0) - sum(each.amount for each in held)
        if (missing := rest - allocatable.get(resource, 0)) > 0:
            held.append(unhealthy(missing) if "/" in resource else Holding(UNEXPLAINED, missing, _UNKNOWN))
    return found


def _told(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if name != PID}
