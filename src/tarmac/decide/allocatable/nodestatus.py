"""The ledger's sizes in the status of a Node: written by agents and simulated nodes, read by reports and explanations.

Oversubscription and the number of exclusive CPUs are stored in the capacity, under names with a space: only there does
stock kubectl show them. Reservations are stored in `status.reservations`, or in an annotation on a server that does not
know the field. Any further amount missing from allocatable is reported as unexplained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tarmac.api.kubernetes.core.nodeclasses import RESERVATIONS, node_resources, offered_classes
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.allocatable.accounts import UNEXPLAINED, NodeLedger, NodeSize
from tarmac.decide.allocatable.ledger import huge_pages, node_ledger, unhealthy
from tarmac.decide.allocatable.podentries import pod_entries
from tarmac.decide.allocatable.reservations import EVICTION, KUBE, PID, SYSTEM, Holding
from tarmac.decide.amounts import CPU, MEMORY, Amounts, amounts_of, shown, whole
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE

CPU_OVERSUBSCRIPTION: Final = "cpu oversubscription"
OPTIONAL: Final = (CPU_OVERSUBSCRIPTION, CPU_EXCLUSIVE)
"""Names in the capacity that are removed when they no longer apply."""
_REPORTED_PURPOSES: Final = (SYSTEM, KUBE, EVICTION)
_UNKNOWN: Final = "the node does not say"


def sizes_in_status(ledger: NodeLedger) -> JsonObject:
    """Return `capacity`, `allocatable` and `reservations`.

    Process ids are not a resource of a Node, but can be reserved.
    """
    capacity = {name: _stored(name, amount) for name, amount in _without_pids(ledger.amounts("capacity")).items()}
    for each in ledger.resources:
        if each.resource == CPU and each.oversubscription:
            capacity[CPU_OVERSUBSCRIPTION] = _as_given_back(three_decimals(each.oversubscription))
        if each.exclusive is not None:
            capacity[CPU_EXCLUSIVE] = _stored(CPU, each.exclusive.capacity)
    return {
        "capacity": capacity,
        "allocatable": {
            name: _stored(name, amount) for name, amount in _without_pids(ledger.amounts("allocatable")).items()
        },
        "reservations": [
            {
                "resource": each.resource,
                "for": held.purpose,
                "amount": _stored(each.resource, held.amount),
                "source": held.source,
            }
            for each in ledger.resources
            for held in each.reserved
            if held.purpose in _REPORTED_PURPOSES and held.amount
        ],
    }


def three_decimals(milli: int) -> str:
    """Format thousandths of a CPU as oversubscription is displayed: 1.500."""
    return f"{milli // 1000}.{milli % 1000:03}"


def _stored(resource: str, amount: int) -> str:
    return _as_given_back(shown(resource, amount))


def _as_given_back(text: str) -> str:
    """Return an amount in the server's canonical form: `1.000` becomes `1`, and `96636764000` becomes `96636764k`.

    An agent that wrote a different form would find a difference on every comparison, and write forever.
    """
    return str(Quantity.parse(text))


def ledger_of_node(
    node: JsonObject, pods: Iterable[JsonObject] = (), used: Mapping[str, str] | None = None
) -> NodeLedger:
    """Return the ledger from a Node's status, the pods on it, and the measured usage."""
    offered = offered_classes(node)
    entries = pod_entries(pods, offered.pod)
    return node_ledger(_size(node), entries, offered, None if used is None else amounts_of(used))


class _Reservation(msgspec.Struct):
    resource: str
    purpose: str = msgspec.field(name="for")
    amount: str
    source: str = ""


def _size(node: JsonObject) -> NodeSize:
    status: JsonObject = node.get("status") or {}
    reported: Mapping[str, str] = status.get("capacity") or {}
    capacity = amounts_of({name: amount for name, amount in reported.items() if name not in OPTIONAL})
    allocatable = amounts_of(status.get("allocatable"))
    lent = whole(CPU, Quantity.parse(reported.get(CPU_OVERSUBSCRIPTION, "0")))
    exclusive = reported.get(CPU_EXCLUSIVE)
    return NodeSize(
        capacity,
        _holdings(capacity, allocatable, lent, node_resources(node).get(RESERVATIONS)),
        lent,
        None if exclusive is None else whole(CPU, Quantity.parse(exclusive)),
        allocatable,
    )


def _holdings(capacity: Amounts, allocatable: Amounts, lent: int, reservations: object) -> dict[str, list[Holding]]:
    """Return the reported reservations, plus holdings for the amounts by which allocatable is lower than they imply."""
    found: dict[str, list[Holding]] = {}
    for resource, holding in _stated(reservations or ()):
        found.setdefault(resource, []).append(holding)
    for resource, amount in capacity.items():
        held = found.setdefault(resource, [])
        if resource == MEMORY:
            held += huge_pages(capacity)
        rest = amount + (lent if resource == CPU else 0) - sum(each.amount for each in held)
        if (missing := rest - allocatable.get(resource, 0)) > 0:
            held.append(unhealthy(missing) if "/" in resource else Holding(UNEXPLAINED, missing, _UNKNOWN))
    return found


def _stated(reservations: object) -> list[tuple[str, Holding]]:
    """Decode the reservations. An annotation may hold arbitrary text: malformed ones are ignored."""
    try:
        return [
            (each.resource, Holding(each.purpose, whole(each.resource, Quantity.parse(each.amount)), each.source))
            for each in msgspec.convert(reservations, list[_Reservation])
        ]
    except ValueError:
        return []


def _without_pids(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if name != PID}
