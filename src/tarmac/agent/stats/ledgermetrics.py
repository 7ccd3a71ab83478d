"""The node's ledger as metrics: every step from capacity to committed requests, and the capacity of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tarmac.agent.stats.summary import UNLABELLED, Sample
from tarmac.decide.allocatable.accounts import NodeLedger, ResourceAccount
from tarmac.decide.allocatable.reservations import EVICTION, KUBE, RESERVABLE, SYSTEM
from tarmac.decide.amounts import CPU


def ledger_metrics(ledger: Callable[[], NodeLedger]) -> Callable[[], Iterator[Sample]]:
    """Return a source that reads the ledger at each scrape."""

    def source() -> Iterator[Sample]:
        found = ledger()
        yield "node_cpu_oversubscription_millicores", "gauge", UNLABELLED, found[CPU].oversubscription
        for account in found.resources:
            unit = 1000 if account.resource == CPU else 1
            for step, amount in _steps(account):
                named = {"resource": account.resource, "step": step}
                yield "tarmac_node_resource", "gauge", named, amount / unit
        for each in found.classes:
            named = {"type": each.type, "class": each.name}
            yield "tarmac_node_class_used", "gauge", named, each.used
            if each.capacity is not None:
                yield "tarmac_node_class_capacity", "gauge", named, each.capacity

    return source


def _steps(account: ResourceAccount) -> Iterator[tuple[str, int]]:
    """Yield the steps that apply to the resource."""
    yield "capacity", account.capacity
    if account.resource in RESERVABLE:
        for purpose in (SYSTEM, KUBE, EVICTION):
            yield f"reserved_{purpose}", account.held(purpose)
    if account.resource == CPU:
        yield "oversubscription", account.oversubscription
    yield "allocatable", account.allocatable
    if account.enforced is not None:
        yield "enforced", account.enforced
    if account.exclusive is not None:
        yield "exclusive", account.exclusive.capacity
        yield "exclusive_committed", account.exclusive.committed
    yield "committed", account.committed
