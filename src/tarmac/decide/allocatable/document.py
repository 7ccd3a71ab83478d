"""The ledger of a node as JSON, with the ledger's names. Unknown numbers are left out."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.decide.allocatable.accounts import ClassAccount, PodEntry, ResourceAccount
from tarmac.decide.allocatable.nodestatus import three_decimals
from tarmac.decide.allocatable.report import NodeReport
from tarmac.decide.allocatable.reservations import PID
from tarmac.decide.amounts import shown


def node_document(report: NodeReport) -> JsonObject:
    """Return the document of one node."""
    ledger = report.ledger
    found: JsonObject = {
        "node": report.name,
        "city": report.city,
        "pressure": list(report.pressures),
        "resources": [_resource_document(each, report.counted) for each in ledger.resources],
        "classes": [_class_document(each, report.counted) for each in ledger.classes],
    }
    return {**found, "pods": [_pod_document(each) for each in ledger.pods]} if report.counted else found


def _resource_document(account: ResourceAccount, counted: bool) -> JsonObject:
    reserved = [
        {"for": held.purpose, "amount": shown(account.resource, held.amount), "source": held.source}
        for held in account.reserved
    ]
    if account.resource == PID:
        return {"resource": account.resource, "reserved": reserved}
    found: JsonObject = {
        "resource": account.resource,
        "capacity": shown(account.resource, account.capacity),
        "reserved": reserved,
    }
    if account.oversubscription:
        found["oversubscription"] = three_decimals(account.oversubscription)
    found["allocatable"] = shown(account.resource, account.allocatable)
    if account.enforced is not None:
        found["enforced"] = shown(account.resource, account.enforced)
    if account.exclusive is not None:
        found["exclusive"] = {"capacity": shown(account.resource, account.exclusive.capacity)}
        if counted:
            found["exclusive"]["committed"] = shown(account.resource, account.exclusive.committed)
    if counted:
        found["committed"] = shown(account.resource, account.committed)
    if account.used is not None:
        found["used"] = shown(account.resource, account.used)
    return found


def _class_document(account: ClassAccount, counted: bool) -> JsonObject:
    found: JsonObject = {
        "type": account.type, "class": account.name, "level": "pod" if account.pod_level else "container",
    }  # fmt: skip
    if account.capacity is not None:
        found["capacity"] = account.capacity
    return {**found, "used": account.used} if counted else found


def _pod_document(pod: PodEntry) -> JsonObject:
    found: JsonObject = {
        "namespace": pod.namespace,
        "name": pod.name,
        "requests": {name: shown(name, amount) for name, amount in pod.requests.items()},
        "share": pod.weight,
    }
    if pod.cpus:
        found["cpus"] = {name: str(cpus) for name, cpus in pod.cpus.items()}
    if pod.classes:
        found["classes"] = dict(pod.classes)
    return found
