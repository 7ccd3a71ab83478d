"""Keeps one IPAddress for each cluster address of a Service, and tells which ServiceCIDRs give out addresses.

Admission gives out addresses and never reads IPAddresses: a Service stays one object in one transaction. So an
IPAddress follows its Service, and a start of the controller repairs those that were missed. IPAddresses without the
label of the allocator belong to users and are left alone.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

import msgspec

from tarmac.api.conditions import condition_of, replaced
from tarmac.api.kubernetes.networking.addresses import DEFAULT_RANGE, LABEL_FAMILY, LABEL_MANAGER, MANAGER
from tarmac.api.partial import Partial
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.client.cache import Item
from tarmac.client.envelope import split_key
from tarmac.client.targets.untyped import IP_ADDRESSES, SERVICE_CIDRS, SERVICES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.writes import create_if_absent, delete_same
from tarmac.decide import reasons

_MANAGER = "tarmac-serviceaddress"
_BY_SERVICE = "service"
_NO_ADDRESS = ("", "None")
_READY = "Ready"
_NOT_OFFERED = "addresses of Services are given out from the ServiceCIDR kubernetes alone"


class _Spec(Partial):
    cluster_ips: list[str] | None = msgspec.field(default=None, name="clusterIPs")


class _Service(Partial):
    spec: _Spec


class _Parent(Partial):
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""


class _AddressSpec(Partial):
    parent_ref: _Parent | None = None


class _Address(Partial):
    spec: _AddressSpec


_read_service = msgspec.json.Decoder(_Service).decode
_read_address = msgspec.json.Decoder(_Address).decode


class ServiceAddressController:
    """Runs both parts."""

    def __init__(self, context: ControllerContext) -> None:
        self._parts = (_Addresses(context), _Ranges(context))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())


class _Addresses:
    """Reconciles by the Service's key."""

    def __init__(self, context: ControllerContext) -> None:
        self._addresses = context.client.resource(IP_ADDRESSES)
        self._services = context.informers.informer(SERVICES)
        self._known = context.informers.informer(IP_ADDRESSES)
        self._known.add_index(_BY_SERVICE, _service_of)
        self._controller = context.controller("serviceaddress", self.reconcile)
        self._controller.watches(self._services)
        self._controller.watches(self._known, _service_of)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: str) -> None:
        service = self._services.cache.item(key)
        wanted = set[str]() if service is None else _addresses_of(service)
        present = {item.metadata.name: item for item in self._known.indexed(_BY_SERVICE, key)}
        for name in present.keys() - wanted:
            await delete_same(self._addresses, present[name].metadata)
        # After the deletions: a Service that swaps its addresses with another frees them first.
        for name in sorted(wanted - present.keys()):
            await self._give(name, key)

    async def _give(self, name: str, key: str) -> None:
        """Write an address; one that another Service had before is deleted, and its deletion starts the next pass."""
        if await create_if_absent(self._addresses, _document(name, key), _MANAGER):
            return
        former = self._known.cache.item(name)
        if former is not None and _is_ours(former):
            await delete_same(self._addresses, former.metadata)
            await create_if_absent(self._addresses, _document(name, key), _MANAGER)


def _addresses_of(service: Item[Any]) -> set[str]:
    found = _read_service(service.raw).spec.cluster_ips or ()
    return {str(ipaddress.ip_address(address)) for address in found if address not in _NO_ADDRESS}


def _is_ours(item: Item[Any]) -> bool:
    return (item.metadata.labels or {}).get(LABEL_MANAGER) == MANAGER


def _service_of(item: Item[Any]) -> tuple[str, ...]:
    parent = _read_address(item.raw).spec.parent_ref if _is_ours(item) else None
    if parent is None or (parent.group, parent.resource) != ("", "services"):
        return ()
    return (f"{parent.namespace}/{parent.name}",)


def _document(name: str, key: str) -> JsonObject:
    namespace, service = split_key(key)
    family = "IPv6" if ":" in name else "IPv4"
    return {
        "apiVersion": IP_ADDRESSES.api_version,
        "kind": IP_ADDRESSES.kind,
        "metadata": {"name": name, "labels": {LABEL_FAMILY: family, LABEL_MANAGER: MANAGER}},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
    }


class _Ranges:
    """Reconciles by the ServiceCIDR's name."""

    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.client.clock
        self._ranges = context.client.resource(SERVICE_CIDRS)
        self._known = context.informers.informer(SERVICE_CIDRS)
        self._controller = context.controller("servicecidr", self.reconcile)
        self._controller.watches(self._known)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, name: str) -> None:
        found = self._known.get(name)
        if found is None:
            return
        wanted = _condition(name)
        if wanted.items() <= condition_of(found, _READY).items():
            return
        made = {**wanted, "lastTransitionTime": rfc3339(self._clock.now())}
        status = {"conditions": replaced((found.get("status") or {}).get("conditions"), made)}
        body = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "status": status}
        await self._ranges.patch(name, body, subresource="status", manager=_MANAGER)


def _condition(name: str) -> JsonObject:
    if name == DEFAULT_RANGE:
        return {
            "type": _READY,
            "status": "True",
            "reason": reasons.OFFERED,
            "message": "Kubernetes Service CIDR is ready",
        }
    return {"type": _READY, "status": "False", "reason": reasons.NOT_OFFERED, "message": _NOT_OFFERED}
