"""Reconciles ExternalServices: their Forwarders, their rules at Gateways, and their status.

One worker, since it assigns dialled addresses and transit numbers. Withdrawn rules are removed from Gateways and
Forwarders at once. A new rule is written to the Gateway first, and to Forwarders once the Gateway's owner has
acknowledged it, or after a second: the owner drops packets that match no rule of its own yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.api.egress.names import EXTERNAL_SERVICE_FINALIZER, NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.egress.cachedmodel import CachedEgressModel
from tarmac.controllers.egress.caches import BY_OWNER, EgressCaches, owner_of_forwarder, owners_of_gateway
from tarmac.controllers.egress.forwarders import ForwarderWriter
from tarmac.controllers.egress.gateways import GatewayLoop
from tarmac.controllers.egress.servicestatus import ServiceStatus
from tarmac.controllers.endpointslices import service_of
from tarmac.controllers.finalizers import hold
from tarmac.controllers.writes import delete_same, exists, release
from tarmac.decide.egress.compiling import Compiled
from tarmac.decide.egress.fitting import compile_fitting
from tarmac.decide.egress.gateways import rules_of, with_part
from tarmac.decide.egress.numbers import dialled_address
from tarmac.decide.egress.openings import Openings
from tarmac.decide.egress.reading import pod_view
from tarmac.decide.egress.sources import resolving
from tarmac.decide.egress.status import owner_of
from tarmac.decide.egress.views import EgressLookup

BY_SOURCE, BY_PLACE = "source", "place"
_DEBOUNCE = 0.05  # endpoints of a rollout change together
_HEAD_START = 1.0  # seconds that Gateways get to apply rules before Forwarders have them


# The index of inbound ports, kept in step with the cache of ExternalServices.
#
# An ExternalService is put again when it is reconciled, which every change of an object that it names causes, and
# before any other is resolved if its spec has changed since.


class OpeningIndex(Openings):
    """The ports of all ExternalServices."""

    def __init__(self, caches: EgressCaches) -> None:
        super().__init__()
        self._caches = caches
        self._changed: dict[str, None] = {}  # keys, in order
        caches.services.on_change(self._service_changed)

    def unknown(self, addresses: Iterable[str], world: EgressLookup) -> Iterator[ExternalService]:
        """Yield the ExternalServices that have changed, of all addresses."""
        while self._changed:
            # One at a time: while this generator is suspended, events may change the set.
            key = next(iter(self._changed))
            del self._changed[key]
            service = self._caches.services.get(key)
            if service is not None and service.metadata.deletion_timestamp is None:
                yield service

    def take_moved(self) -> list[str]:
        """Return the keys of the ExternalServices to be reconciled again, once."""
        found, self.moved = sorted(self.moved), set()
        return found

    def _service_changed(self, old: Item[ExternalService] | None, new: Item[ExternalService] | None) -> None:
        if new is None or new.metadata.deletion_timestamp is not None:
            item = new or old
            if item is not None:
                self._changed.pop(item.key, None)
                self.drop(item.key)
        elif old is None or old.metadata.uid != new.metadata.uid or old.object.spec != new.object.spec:
            self._changed[new.key] = None


def sources_of(item: Item[ExternalService]) -> list[str]:
    """Index: ExternalServices by the Services they name, as namespace/name."""
    own = item.metadata.namespace
    return sorted({f"{each.service.namespace or own}/{each.service.name}" for each in item.object.spec.sources})


class ServiceLoop:
    """Reconciles by the ExternalService's key."""

    def __init__(
        self, context: ControllerContext, caches: EgressCaches, model: CachedEgressModel, gateways: GatewayLoop
    ) -> None:
        self._caches, self._model, self._gateways = caches, model, gateways
        self._status, self._forwarders = ServiceStatus(caches, model), ForwarderWriter(caches)
        self._openings, self._runner = OpeningIndex(caches), context.client.runner
        self._pending: dict[str, float] = {}  # key -> time when new rules were written to a Gateway
        caches.services.add_index(BY_SOURCE, sources_of)
        self.controller = context.controller("external-services", self.reconcile, workers=1)
        self.controller.watches(caches.services)
        self.controller.watches(model.services, lambda item: self._using(item.key), after=_DEBOUNCE)
        self.controller.watches(model.slices, lambda item: [x for key in service_of(item) for x in self._using(key)],
                                after=_DEBOUNCE)  # fmt: skip
        self.controller.watches(
            caches.claims, lambda item: self._of_namespace(item.metadata.namespace), after=_DEBOUNCE
        )
        self.controller.watches(caches.known_source_ips, lambda item: self._of_address(item.key), after=_DEBOUNCE)
        self.controller.watches(caches.known_forwarders, owner_of_forwarder, after=_DEBOUNCE)
        self.controller.watches(caches.known_gateways, owners_of_gateway, after=_DEBOUNCE)
        caches.node_views.listeners.append(self._nodes_changed)
        self.controller.awaits(caches.nodes)
        for informer in (caches.classes, model.locations, model.known_networks):
            self.controller.watches(informer, lambda _: caches.services.cache.keys(), after=_HEAD_START)
        caches.services.add_index(BY_PLACE, lambda item: sorted({key.partition("/")[0] for key in sources_of(item)}))
        model.pods.on_change(self._pod_changed)
        self.controller.awaits(model.pods)
        self.controller.awaits(caches.namespaces)

    def _nodes_changed(self) -> None:
        for key in self._caches.services.cache.keys():  # noqa: SIM118 no mapping
            self.controller.queue.add_after(key, _HEAD_START)

    def _pod_changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        """Reconcile again when a pod's relevant fields change.

        A slice may name a pod before the pod, or its addresses, are in the cache.
        """
        item = new or old
        using = self._caches.services.indexed(BY_PLACE, item.metadata.namespace) if item is not None else []
        if using and (old is None or new is None or pod_view(old.object) != pod_view(new.object)):
            for each in using:
                self.controller.queue.add_after(each.key, _DEBOUNCE)

    def _using(self, service: str) -> list[str]:
        return [item.key for item in self._caches.services.indexed(BY_SOURCE, service)]

    def _of_namespace(self, namespace: str) -> list[str]:
        known = self._caches.services.cache.keys()
        return [key for key in known if key.startswith(f"{namespace}/")]

    def _of_address(self, name: str) -> list[str]:
        return [f"{each.metadata.namespace}/{each.metadata.name}" for each in self._model.users(name)]

    async def reconcile(self, key: str) -> RetryAfter | None:
        """Bring all objects derived from one ExternalService in line with it."""
        self._queue_moved()  # a deleted one may have left ports to others
        service = self._caches.services.get(key)
        if service is None:
            await self._delete_orphans(key)
            return None
        own = service.metadata
        if own.deletion_timestamp is not None:
            await self._remove(service)
            return None
        # The finalizer first: without it, a deleted service would leave its rules in Gateways.
        if await hold(self._caches.service_resource, own, EXTERNAL_SERVICE_FINALIZER, used=True):
            return None
        found = await self._runner.done(resolving(service, self._model, self._openings))
        self._queue_moved()
        dialled = self._dial(service, found.target.version)
        known = {each.spec.node_name: each for each in self._forwarders.of(key)}
        made = compile_fitting(found, dialled, known, self._caches.transit_numbers.of_others(key), self._model.gateway)
        # Gateways before Forwarders: an owner drops packets that match no rule of its own yet.
        gateways = await self._write_gateways(service, made)
        early = self._is_early(key, made, known, gateways)
        await self._forwarders.write(service, made, known, early=early)
        await self._status.write(found, made, dialled, self._forwarders.of(key))
        return RetryAfter(_HEAD_START) if early else None

    def _queue_moved(self) -> None:
        for other in self._openings.take_moved():
            self.controller.queue.add_after(other, _DEBOUNCE)

    def _dial(self, service: ExternalService, family: int) -> str:
        """Return the address that Pods dial, constant for the service's lifetime.

        It counts as taken before any status has it.
        """
        uid, status = service.metadata.uid, service.status
        given = self._caches.dialled_addresses
        known = given.get(uid) or next(iter(status.addresses if status is not None else ()), "")
        address = dialled_address(uid, family, given.of_others(uid), known)
        given.put(uid, address)
        return address

    async def _write_gateways(self, service: ExternalService, made: Compiled | None) -> dict[str, Gateway]:
        """Write the service's rules to every Gateway that has or needs some. Without `made`, remove them."""
        own = service.metadata
        mine, key = rules_of(own.namespace, own.name), f"{own.namespace}/{own.name}"
        present = {each.metadata.name for each in self._caches.gateways.indexed(BY_OWNER, key)
                   if any(map(mine, (*each.spec.egress_rules, *each.spec.ingress_rules)))}  # fmt: skip
        written: dict[str, Gateway] = {}
        for name in sorted({*present, *(made.gateways if made is not None else ())}):
            known, address = self._caches.gateways.get(f"{NAMESPACE}/{name}"), self._caches.source_ips.get(name)
            # Other parts of an existing Gateway stay as they are: the loop of Gateways owns them.
            base = known.spec if known is not None else self._gateways.wanted(address, None) if address else None
            if base is None:
                continue
            wanted = with_part(base, mine, made.gateways.get(name) if made is not None else None)
            changed = await self._gateways.write(name, known, wanted)
            if changed is not None:
                written[name] = changed
            # Of a Gateway that another controller has just created, these rules are still to be written.
            if changed is None or known is None or changed.metadata.generation != known.metadata.generation:
                self._pending[key] = self._caches.clock.monotonic()
        return written

    def _is_early(
        self, key: str, made: Compiled, known: Mapping[str, Forwarder], gateways: Mapping[str, Gateway]
    ) -> bool:
        """Return True while a Gateway has not acknowledged rules that Forwarders lack; at most for `_HEAD_START`."""
        news = any(node not in known or spec != known[node].spec for node, spec in made.forwarders.items())
        waited = self._caches.clock.monotonic() - self._pending.get(key, float("-inf"))
        # At most that long: an owner that is down must not hold up the rules of all other addresses.
        if not news or waited >= _HEAD_START:
            return False
        if made.gateways.keys() - gateways.keys():
            return True
        owners = [(owner_of(each), each.metadata.generation) for each in gateways.values()]
        return any(owner is None or owner.applied_generation != newest for owner, newest in owners)

    async def _remove(self, service: ExternalService) -> None:
        """Remove the rules first, then the finalizer. Nodes are not waited for."""
        own = service.metadata
        if EXTERNAL_SERVICE_FINALIZER not in own.finalizers:
            return
        await self._write_gateways(service, None)
        for each in self._forwarders.of(f"{own.namespace}/{own.name}"):
            await delete_same(self._caches.forwarder_resource, each.metadata)
        # Last: after a crash before this line the object still exists, and the next pass removes the remaining rules.
        await release(self._caches.service_resource, own, EXTERNAL_SERVICE_FINALIZER)

    async def _delete_orphans(self, key: str) -> None:
        """Delete the Forwarders of a service that is gone because a third party removed its finalizer.

        The server is asked first, since the cache may be behind.
        """
        self._pending.pop(key, None)
        orphans = self._forwarders.of(key)
        namespace, _, name = key.partition("/")
        if orphans and not await exists(self._caches.service_resource, name, namespace):
            for each in orphans:
                await delete_same(self._caches.forwarder_resource, each.metadata)
