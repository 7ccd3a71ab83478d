"""The ledger of a node: every amount, its source, and the remainder. One function computes it.

    capacity           the machine's resources
    - reserved         held back, each part with its purpose and its source
    + oversubscription reserved but idle CPUs, lent out
    = allocatable      the total that pods may request; above the capacity if more is lent than is reserved
      enforced         capacity minus the reservations of system and agent: the kernel's limit for all pods together
      exclusive        CPUs that containers can have exclusively, and how many are assigned
      committed        the sum of the pods' requests
      used             measured usage of the pods

Oversubscription changes allocatable and nothing else: neither the enforced amount nor the number of reserved CPUs. The
agent's status and metrics, `tarmac node report`, `tarmac why` and the simulator all read the ledger; no other code adds
amounts up. All amounts are integers: CPUs in thousandths, every other resource in units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tarmac.api.kubernetes.core.nodeclasses import NOTHING, OfferedClasses
from tarmac.decide.allocatable.accounts import (
    UNEXPLAINED,
    ClassAccount,
    ExclusiveAccount,
    NodeLedger,
    NodeSize,
    PodEntry,
    ResourceAccount,
)
from tarmac.decide.allocatable.reservations import EVICTION, KUBE, PID, STORAGE, SYSTEM, Holding, Reservations
from tarmac.decide.allocatable.thresholds import MEMORY_AVAILABLE, NODEFS_AVAILABLE, Threshold
from tarmac.decide.amounts import CPU, MEMORY, PODS, Amounts, add, shown
from tarmac.decide.qosclasses.counting import Place

HUGE_PAGES: Final = "hugepages"
UNHEALTHY: Final = "unhealthy"
DEFAULT: Final = "default"
_BY_SIGNAL: Final = {MEMORY_AVAILABLE: MEMORY, NODEFS_AVAILABLE: STORAGE}


def node_ledger(
    size: NodeSize,
    pods: Sequence[PodEntry] = (),
    offered: OfferedClasses = NOTHING,
    used: Mapping[str, int] | None = None,
) -> NodeLedger:
    """Compute every number of a node. Terminated pods must not be among the pods."""
    committed: Amounts = {PODS: len(pods)} if pods else {}
    places = Counter[Place]()
    for pod in pods:
        add(committed, pod.requests)
        places.update(pod.places)
    exclusive = None
    if size.exclusive is not None:
        exclusive = ExclusiveAccount(size.exclusive, 1000 * len({cpu for pod in pods for cpu in _own(pod)}))
    names: list[str] = [*size.capacity, *(size.allocatable or ()), *size.holdings, *committed]
    return NodeLedger(
        tuple(
            _account(size, name, exclusive, committed.get(name, 0), (used or {}).get(name))
            for name in dict.fromkeys(names)
        ),
        tuple(_classes(offered, places)),
        tuple(pods),
    )


def sized(
    capacity: Mapping[str, int],
    reservations: Reservations,
    *,
    exclusive: int | None = None,
    failing_devices: Mapping[str, int] | None = None,
) -> NodeSize:
    """Return the size of a node from its agent's configuration.

    `exclusive`: the number of whole CPUs that containers can have exclusively; None if the policy assigns none.
    `failing_devices` are part of the capacity.
    """
    holdings = {name: tuple(_holdings(capacity, name, reservations, failing_devices or {})) for name in capacity}
    own = None if exclusive is None else 1000 * exclusive
    return NodeSize(capacity, holdings, reservations.oversubscription, own)


def objections(size: NodeSize) -> list[str]:
    """Return the reasons why a node cannot start with these amounts; empty when it can.

    Oversubscription does not compensate for a reservation above the capacity.
    """
    found: list[str] = []
    for resource, amount in size.capacity.items():
        kept = (each for each in size.holdings.get(resource, ()) if each.purpose in (SYSTEM, KUBE, EVICTION))
        if (reserved := sum(each.amount for each in kept)) > amount:
            found.append(
                f'Resource "{resource}" has a reservation of {shown(resource, reserved)} but capacity of '
                f"{shown(resource, amount)}. Expected capacity >= reservation."
            )
    return found


def _account(
    size: NodeSize, resource: str, exclusive: ExclusiveAccount | None, committed: int, used: int | None
) -> ResourceAccount:
    capacity = size.capacity.get(resource, 0)
    reserved = tuple(size.holdings.get(resource, ()))
    lent = size.oversubscription if resource == CPU else 0
    allocatable = max(0, capacity - sum(each.amount for each in reserved) + lent)
    if size.allocatable is not None:
        allocatable = size.allocatable.get(resource, 0)
    kept = sum(each.amount for each in reserved if each.purpose in (SYSTEM, KUBE))
    known = resource in size.capacity and all(each.purpose != UNEXPLAINED for each in reserved)
    return ResourceAccount(
        resource=resource,
        capacity=capacity,
        reserved=reserved,
        oversubscription=lent,
        allocatable=allocatable,
        enforced=max(0, capacity - kept) if known else None,
        exclusive=exclusive if resource == CPU else None,
        committed=committed,
        used=used,
    )


def _holdings(
    capacity: Mapping[str, int], resource: str, reservations: Reservations, failing_devices: Mapping[str, int]
) -> Iterator[Holding]:
    kept = reservations.holdings(resource)
    yield from kept
    if resource == PID and not kept:
        # Without a free process id, logins fail and the agent cannot start the processes that terminate a pod.
        yield Holding(SYSTEM, capacity[PID] // 10, DEFAULT)
    yield from _for_eviction(capacity, resource, reservations.eviction)
    if resource == MEMORY:
        yield from huge_pages(capacity)
    if failing := failing_devices.get(resource):
        yield unhealthy(failing)


def huge_pages(capacity: Mapping[str, int]) -> Iterator[Holding]:
    """Yield the memory set aside in huge pages: it is not available as ordinary memory."""
    if amount := sum(each for name, each in capacity.items() if name.startswith(f"{HUGE_PAGES}-")):
        yield Holding(HUGE_PAGES, amount, "kernel")


def unhealthy(devices: int) -> Holding:
    """Return a holding for unhealthy devices: they count as capacity, but no pod may use them."""
    return Holding(UNHEALTHY, devices, "device plugin")


def _for_eviction(capacity: Mapping[str, int], resource: str, thresholds: Sequence[Threshold]) -> Iterator[Holding]:
    """Yield the amounts that stay free because pods are evicted below them."""
    for each in thresholds:
        if each.hard and _BY_SIGNAL.get(each.signal) == resource and (amount := each.least.of(capacity[resource])):
            yield Holding(EVICTION, amount, each.source)


def _classes(offered: OfferedClasses, places: Mapping[Place, int]) -> Iterator[ClassAccount]:
    for types, pod_level in ((offered.pod, True), (offered.container, False)):
        for kind, each in types.items():
            for name, capacity in each.classes.items():
                yield ClassAccount(kind, name, capacity, places.get((kind, name), 0), pod_level)


def _own(pod: PodEntry) -> Iterator[int]:
    for cpus in pod.cpus.values():
        yield from cpus
