"""Keeps the EndpointSlices and the Endpoints of every Service with a selector.

Slices of a Service that no longer has a selector are deleted; slices that this controller does not manage are left
alone. A change of a pod requeues the Services that select it now or selected it before, found by an index of
labels. The zone of an endpoint is that of its node; a node rarely changes its zone, and then every Service is requeued.
A Service may have thousands of pods and a thousand ports, so all computation runs cooperatively on the event loop, and
pods are decoded once for both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from tarmac.api.mirrorpods import is_mirror
from tarmac.api.networking.names import LABEL_ZONE
from tarmac.api.status import NotFound
from tarmac.base.cooperative import CooperativeWork
from tarmac.client.cache import Item, by_namespace
from tarmac.client.envelope import split_key
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.client.informer import Informer
from tarmac.client.targets.untyped import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.endpointslices import BY_SERVICE, MANAGER, is_managed, service_of, write_slices
from tarmac.controllers.writes import create_if_absent, exists
from tarmac.decide import reasons
from tarmac.decide.endpoints import EndpointPod, EndpointsBuilder, Grouping, ServiceFacts
from tarmac.decide.endpoints.mirrors import LEADER

BY_NAMESPACE = "namespace"
DEBOUNCE_SECONDS = 0.1  # pods of a rollout change together
_NOT_OFFERED = frozenset({"NodePort", "LoadBalancer"})

_read_pod = msgspec.json.Decoder(EndpointPod).decode
_read_service = msgspec.json.Decoder(ServiceFacts).decode

Labels = Mapping[str, str]


# Index of Service selectors by one of their labels.


def matches(selector: Labels, labels: Labels) -> bool:
    """Return True if the selector matches the labels."""
    return selector.items() <= labels.items()


class SelectorIndex:
    """The selectors of every Service, each under the first of its labels."""

    def __init__(self) -> None:
        self._by_key: dict[str, Labels] = {}
        self._by_label: dict[tuple[str, str, str], dict[str, Labels]] = {}

    def put(self, namespace: str, key: str, selector: Labels) -> None:
        """Record the selector of a Service; an empty one removes it."""
        before = self._by_key.pop(key, {})
        for label, value in sorted(before.items())[:1]:
            known = self._by_label[namespace, label, value]
            del known[key]
            if not known:
                del self._by_label[namespace, label, value]
        for label, value in sorted(selector.items())[:1]:
            self._by_key[key] = selector
            self._by_label.setdefault((namespace, label, value), {})[key] = selector

    def matching(self, namespace: str, labels: Labels) -> Iterator[str]:
        """Yield the keys of the Services whose selector matches the labels."""
        for label, value in labels.items():
            for key, selector in self._by_label.get((namespace, label, value), {}).items():
                if matches(selector, labels):
                    yield key


# The v1 Endpoints object of each Service with a selector, for clients that still read it.
#
# It has the name of its Service and is deleted with it, regardless of its writer: on the deletion of the Service, and
# at start for Services deleted while no controller was running. Endpoints without a Service are otherwise kept, since
# they may be written before their Service. The Endpoints of Services without a selector are written by users.


class EndpointsObjects:
    """Writes and deletes Endpoints."""

    def __init__(self, context: ControllerContext) -> None:
        self._runner = context.client.runner
        self._endpoints = context.client.resource(ENDPOINTS)
        self._services = context.client.resource(SERVICES)
        self.known = context.informers.informer(ENDPOINTS)
        # Keys of deleted Services. Lost in a crash, and found again by `orphans` at the next start.
        self._deleted: set[str] = set()

    def orphans(self, services: Informer[Any]) -> list[str]:
        """Return the keys of Endpoints without a Service, except those used for leader election."""
        found = [
            item.key
            for item in self.known.cache.items()
            if item.key not in services.cache and LEADER not in (item.metadata.annotations or {})
        ]
        self._deleted.update(found)
        return found

    def service_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        """Record that a Service was created, changed or deleted."""
        if new is not None:
            # Created again: its Endpoints are no orphans any more.
            self._deleted.discard(new.key)
        elif old is not None:
            self._deleted.add(old.key)

    async def write(self, key: str, listing: EndpointsBuilder) -> None:
        """Write the Endpoints of a Service unless they are current."""
        wanted = await self._runner.done(listing.object(self.known.get(key)))
        if wanted is None:
            return
        if "resourceVersion" in wanted["metadata"]:
            await self._endpoints.update(wanted, manager=MANAGER)
            return
        await create_if_absent(self._endpoints, wanted, MANAGER)

    async def remove(self, key: str) -> None:
        """Delete the Endpoints of a deleted Service. Endpoints that never had a Service stay."""
        if key not in self._deleted:
            return
        namespace, name = split_key(key)
        # The caches are not of one moment: Endpoints may be observed before the Service they were written for.
        if await exists(self._services, name, namespace):
            return
        with suppress(NotFound):
            await self._endpoints.delete(name, namespace)
        self._deleted.discard(key)


class ServiceController:
    """Reconciles by the Service's key."""

    def __init__(self, context: ControllerContext) -> None:
        informers = context.informers
        # With the gate WayIn agents serve both, and the ingress controller reports about public addresses.
        self._not_offered = frozenset[str]() if context.settings.way_in else _NOT_OFFERED
        self._recorder = context.recorder
        self._runner = context.client.runner
        self._slices = context.client.resource(ENDPOINT_SLICES)
        self._selectors = SelectorIndex()
        self._known = informers.informer(SERVICES)
        self._known.on_change(self._service_changed)
        self._endpoints = EndpointsObjects(context)
        self._pods = informers.informer(PODS)
        self._pods.add_index(BY_NAMESPACE, by_namespace)
        self._known_slices = informers.informer(ENDPOINT_SLICES)
        self._known_slices.add_index(BY_SERVICE, service_of)
        self._controller = context.controller("service", self.reconcile)
        self._controller.watches(self._known)
        self._controller.watches(self._known_slices, service_of)
        # Foreign changes are reverted, debounced: most changes are our own and need no second pass.
        self._controller.watches(self._endpoints.known, self._if_known, after=DEBOUNCE_SECONDS)
        self._controller.watches(self._pods, self._selecting, after=DEBOUNCE_SECONDS)
        self._zones: dict[str, str] = {}  # by node
        nodes = informers.informer(NODES)
        nodes.on_change(self._node_changed)
        self._controller.awaits(nodes)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._known.synced()
        await self._endpoints.known.synced()
        # Both caches have synced: in a half-filled one, Endpoints would look as if their Service were deleted.
        for key in self._endpoints.orphans(self._known):
            self._controller.queue.add(key)
        await self._controller.run()

    def _service_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        self._endpoints.service_changed(old, new)
        service = _read_service(new.raw) if new is not None else None
        selector = service.spec.selector if service is not None else None
        self._selectors.put(item.metadata.namespace, item.key, selector or {})
        if service is not None and (old is None or _read_service(old.raw).spec.type != service.spec.type):
            self._warn_of_type(service)

    def _selecting(self, pod: Item[Any]) -> list[str]:
        return list(self._selectors.matching(pod.metadata.namespace, pod.metadata.labels or {}))

    def _if_known(self, endpoints: Item[Any]) -> tuple[str, ...]:
        return (endpoints.key,) if endpoints.key in self._known.cache else ()

    def _node_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        zone = (item.metadata.labels or {}).get(LABEL_ZONE, "") if new is not None else ""
        if zone != self._zones.pop(item.metadata.name, ""):
            for each in self._known.cache.items():
                self._controller.queue.add_after(each.key, DEBOUNCE_SECONDS)
        if zone:
            self._zones[item.metadata.name] = zone

    async def reconcile(self, key: str) -> None:
        """Write the slices and the Endpoints of one Service."""
        item = self._known.cache.item(key)
        if item is None:
            await self._endpoints.remove(key)
            return  # its slices go with it
        if item.metadata.deletion_timestamp is not None:
            return
        slices = self._known_slices.indexed(BY_SERVICE, key)
        present = {each.metadata.name: each for each in slices if is_managed(each)}
        service = _read_service(item.raw)
        if not service.selects:
            await write_slices(self._slices, self._runner, service, (), present)
            return
        grouping, listing = await self._runner.done(self._read(service))
        # Slices first, since connections depend on them: a failure to write the older object is retried by itself.
        await write_slices(self._slices, self._runner, service, grouping.groups(), present)
        await self._endpoints.write(key, listing)

    def _read(self, service: ServiceFacts) -> CooperativeWork[tuple[Grouping, EndpointsBuilder]]:
        """Compute the endpoints of a Service. A pod that changes meanwhile triggers another pass."""
        grouping, listing, selector = (
            Grouping(service, self._zones),
            EndpointsBuilder(service),
            service.spec.selector or {},
        )
        for item in self._pods.indexed(BY_NAMESPACE, service.metadata.namespace):
            if matches(selector, item.metadata.labels or {}) and not is_mirror(item.metadata.annotations):
                pod = _read_pod(item.raw)
                grouping.add(pod)
                listing.add(pod)
            yield
        return grouping, listing

    def _warn_of_type(self, service: ServiceFacts) -> None:
        if service.spec.type in self._not_offered:
            own = service.metadata
            about = InvolvedObject("v1", "Service", own.name, own.namespace, own.uid)
            message = f"Services of type {service.spec.type} are not offered; inside the cluster it works as ClusterIP."
            self._recorder.event(about, "Warning", reasons.SERVICE_TYPE_NOT_OFFERED, message)
