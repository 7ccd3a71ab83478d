"""Keeps the EndpointSlices of every Service that selects pods by labels.

A slice's name follows from its Service, group and number, so that making it twice makes it once. Slices of a Service
that selects nothing any more are removed; those of one that never did are somebody else's and left alone. A change of a
pod reaches the Services whose selector matches it now or matched it before; only those that ask for one of its labels
are looked at. The zone of an endpoint is that of its node; nodes rarely move, and then every Service is looked at.
Thousands of pods behind a Service are read a few at a time, since others wait for the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from tarmac.api.networking.names import LABEL_ZONE
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, NotFound
from tarmac.client.cache import Item, by_namespace
from tarmac.client.events import Reference
from tarmac.client.targets import NODES, PODS, dynamic
from tarmac.controllers.context import Context
from tarmac.controllers.service.selectors import Selectors, matches
from tarmac.controllers.service.slices import (
    BY_SERVICE,
    MANAGER,
    Slice,
    is_managed,
    number_of,
    service_of,
    slice_document,
)
from tarmac.decide import reasons
from tarmac.decide.endpoints import Endpoint, Group, Grouping, PodFacts, ServiceFacts, shared_out

SERVICES = dynamic("v1", "services", "Service")
SLICES = dynamic("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")
BY_NAMESPACE = "namespace"
GATHER_SECONDS = 0.1  # pods of a rollout change together
AT_ONCE = 250  # pods that are read before others have the loop
_NOT_OFFERED = ("NodePort", "LoadBalancer")

_read_pod = msgspec.json.Decoder(PodFacts).decode
_read_service = msgspec.json.Decoder(ServiceFacts).decode


class ServiceController:
    """Reconciles by the Service's key."""

    def __init__(self, context: Context) -> None:
        informers = context.informers
        self._recorder = context.recorder
        self._slices = context.client.resource(SLICES)
        self._selectors = Selectors()
        self._known = informers.informer(SERVICES)
        self._known.on_change(self._service_changed)
        self._pods = informers.informer(PODS)
        self._pods.add_index(BY_NAMESPACE, by_namespace)
        self._known_slices = informers.informer(SLICES)
        self._known_slices.add_index(BY_SERVICE, service_of)
        self._controller = context.controller("service", self.reconcile)
        self._controller.watches(self._known)
        self._controller.watches(self._known_slices, service_of)
        self._controller.awaits(self._pods)
        self._pods.on_change(self._pod_changed)
        self._zones: dict[str, str] = {}  # by node
        nodes = informers.informer(NODES)
        nodes.on_change(self._node_changed)
        self._controller.awaits(nodes)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _service_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        service = _read_service(new.raw) if new is not None else None
        selector = service.spec.selector if service is not None else None
        self._selectors.put(item.metadata.namespace, item.key, selector or {})
        if service is not None and (old is None or _read_service(old.raw).spec.type != service.spec.type):
            self._tell(service)

    def _pod_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        states = [item.metadata for item in (old, new) if item is not None]
        for key in {key for state in states for key in self._selectors.matching(state.namespace, state.labels or {})}:
            self._controller.queue.add_after(key, GATHER_SECONDS)

    def _node_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        zone = (item.metadata.labels or {}).get(LABEL_ZONE, "") if new is not None else ""
        if zone != self._zones.pop(item.metadata.name, ""):
            for each in self._known.cache.items():
                self._controller.queue.add_after(each.key, GATHER_SECONDS)
        if zone:
            self._zones[item.metadata.name] = zone

    async def reconcile(self, key: str) -> None:
        """Bring the slices of one Service in line."""
        item = self._known.cache.item(key)
        if item is None or item.metadata.deletion_timestamp is not None:
            return  # its slices go with it
        slices = self._known_slices.indexed(BY_SERVICE, key)
        present = {each.metadata.name: each for each in slices if is_managed(each)}
        service = _read_service(item.raw)
        wanted = dict(self._wanted(service, await self._grouped(service), present)) if service.selects else {}
        for name, slice_ in wanted.items():
            await self._write(slice_, present.get(name))
            await asyncio.sleep(0)
        for name in present.keys() - wanted.keys():
            await self._remove(present[name])

    async def _grouped(self, service: ServiceFacts) -> dict[Group, list[Endpoint]]:
        """The endpoints of a Service. A pod that changes meanwhile brings us here again."""
        found, selector = Grouping(service, self._zones), service.spec.selector or {}
        pods = self._pods.indexed(BY_NAMESPACE, service.metadata.namespace)
        selected = [item for item in pods if matches(selector, item.metadata.labels or {})]
        for number, item in enumerate(selected, 1):
            found.add(_read_pod(item.raw))
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return found.groups()

    def _wanted(
        self, service: ServiceFacts, groups: dict[Group, list[Endpoint]], present: dict[str, Item[Any]]
    ) -> Iterator[tuple[str, Slice]]:
        for group, endpoints in groups.items():
            prefix = f"{service.metadata.name}-{_digest(service, group)}"
            by_uid = {each.uid: each.document for each in endpoints}
            numbers = ((number_of(name, prefix), item) for name, item in present.items())
            shares = {number: _members(item) for number, item in numbers if number is not None}
            for number, members in shared_out(shares, by_uid).items():
                name = f"{prefix}-{number}"
                yield name, Slice(name, service, group, tuple(by_uid[uid] for uid in members))

    async def _write(self, wanted: Slice, present: Item[Any] | None) -> None:
        document = slice_document(wanted)
        if present is None:
            try:
                await self._slices.create(document, manager=MANAGER)
            except AlreadyExists:
                return  # our copy is behind; the slice that is there will wake us
            return
        if _says(present.object, document):
            return
        document["metadata"]["resourceVersion"] = present.metadata.resource_version
        await self._slices.update(document, manager=MANAGER)

    async def _remove(self, item: Item[Any]) -> None:
        try:
            await self._slices.delete(item.metadata.name, item.metadata.namespace, uid=item.metadata.uid)
        except NotFound:
            return

    def _tell(self, service: ServiceFacts) -> None:
        if service.spec.type in _NOT_OFFERED:
            own = service.metadata
            about = Reference("v1", "Service", own.name, own.namespace, own.uid)
            message = f"Services of type {service.spec.type} are not offered; inside the cluster it works as ClusterIP."
            self._recorder.event(about, "Warning", reasons.SERVICE_TYPE_NOT_OFFERED, message)


def _digest(service: ServiceFacts, group: Group) -> str:
    return sha256(repr((service.metadata.uid, group)).encode()).hexdigest()[:8]


def _members(item: Item[Any]) -> list[str]:
    return [each["targetRef"]["uid"] for each in item.object.get("endpoints") or ()]


def _says(known: JsonObject, wanted: JsonObject) -> bool:
    """Whether a slice says what it should; others may have put more labels on it."""
    if any((known.get(field) or []) != wanted[field] for field in ("endpoints", "ports")):
        return False
    return all(
        (known["metadata"].get(field) or {}).items() >= wanted["metadata"][field].items()
        for field in ("labels", "annotations")
    )
