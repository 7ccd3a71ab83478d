"""Writes the status of Services of type LoadBalancer: their addresses, and whether clients outside reach them."""

from __future__ import annotations

from typing import Any

from tarmac.api.declare import decode, encode
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.schema import JsonObject
from tarmac.api.shared import Condition
from tarmac.client.cache import Item
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.endpointslices import BY_SERVICE, service_of
from tarmac.controllers.ingress.caches import MANAGER, IngressCaches
from tarmac.controllers.ingress.claims import IngressClaimLoop
from tarmac.controllers.writes import difference
from tarmac.decide import reasons
from tarmac.decide.ingress.addressclaims import IngressClaim, holder_key
from tarmac.decide.ingress.announcing import gateways, ingress_status, reports, service_finding
from tarmac.decide.ingress.binding import holders, phase_of
from tarmac.decide.pooled.pool import RESTING
from tarmac.decide.rollup import Finding, merge

READY = "LoadBalancerReady"
_DEBOUNCE = 0.1


class ServiceStatusLoop:
    """Reconciles by namespace/name of the Service."""

    def __init__(self, context: ControllerContext, caches: IngressCaches, claims: IngressClaimLoop) -> None:
        self._caches, self._claims = caches, claims
        self.controller = context.controller("public-service-status", self.reconcile)
        self.controller.watches(caches.services)
        self.controller.watches(caches.known_addresses, services_of, after=_DEBOUNCE)
        self.controller.watches(caches.slices, service_of, after=_DEBOUNCE)
        for informer in (caches.pools, caches.nodes, caches.namespaces):
            self.controller.awaits(informer)
        claims.on_decision(self._decided)
        caches.node_views.listeners.append(self._nodes_changed)

    def _decided(self, key: str) -> None:
        kind, _, name = key.partition("/")
        if kind == "Service":
            self.controller.queue.add(name)

    def _nodes_changed(self) -> None:
        for claim in self._caches.claims.values():
            if claim.kind == "Service":
                self.controller.queue.add_after(f"{claim.namespace}/{claim.name}", 1.0)

    async def reconcile(self, key: str) -> None:
        """Write the status of one Service."""
        service = self._caches.services.get(key)
        if service is None or service["metadata"].get("deletionTimestamp"):
            return
        old = service.get("status") or {}
        namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
        claim = self._caches.claims.get(holder_key("Service", namespace, name))
        if claim is None:
            await self._write(service, old, [], None)
            return
        addresses = [each for each in self._caches.held_by(claim.uid) if phase_of(each) not in RESTING]
        found = {each.spec.address: self._reports(each) for each in addresses}
        shown = [each.get("ip", "") for each in (old.get("loadBalancer") or {}).get("ingress") or ()]
        addresses_shown = ingress_status(addresses, shown, [each for each in found if found[each]])
        finding = service_finding(
            claim,
            self._claims.refusals.get(claim.key, ()),
            found,
            endpoints=self._endpoints(key),
            gateway_count=self._gateways(addresses),
        )
        if await self._write(service, old, addresses_shown, finding):
            self._record(claim, service, old, addresses, finding)

    def _reports(self, address: PublicAddress) -> list[Any]:
        return reports(address, self._caches.pools.get(address.spec.pool_name), self._caches.node_views.views)

    def _gateways(self, addresses: list[PublicAddress]) -> int:
        pool = self._caches.pools.get(addresses[0].spec.pool_name) if addresses else None
        return len(gateways(pool, self._caches.node_views.views.values())) if pool is not None else 0

    def _endpoints(self, key: str) -> int:
        """Count the ready endpoints of a Service."""
        slices = (item.object for item in self._caches.slices.indexed(BY_SERVICE, key))
        every = (each for one in slices for each in one.get("endpoints") or ())
        return sum((each.get("conditions") or {}).get("ready") is not False for each in every)

    async def _write(self, service: JsonObject, old: JsonObject, shown: list[str], finding: Finding | None) -> bool:
        """Patch the status. Without a finding, what an earlier pass wrote goes. Return True if it was written."""
        metadata = service["metadata"]
        known = [decode(Condition, each) for each in old.get("conditions") or ()]
        if finding is None:
            conditions = [each for each in known if each.type != READY]
            if len(conditions) == len(known):
                return False  # another program's status is left alone
        else:
            conditions = merge(known, [finding], metadata.get("generation") or 0, self._caches.clock.now())
        ingress = [{"ip": each, "ipMode": "VIP"} for each in shown]
        status: JsonObject = {**old, "loadBalancer": {"ingress": ingress} if ingress else {}}
        status["conditions"] = [encode(each) for each in conditions]
        before = {**old, "loadBalancer": old.get("loadBalancer") or {}}
        patch = difference(before, status)
        if not patch:
            return False
        body: JsonObject = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": patch}
        resource = self._caches.service_resource
        await resource.patch(metadata["name"], body, metadata["namespace"], subresource="status", manager=MANAGER)
        return True

    def _record(
        self,
        claim: IngressClaim,
        service: JsonObject,
        old: JsonObject,
        addresses: list[PublicAddress],
        finding: Finding,
    ) -> None:
        """Record an event once for a binding, an announcement, a withdrawal, and each reason against them."""
        about = InvolvedObject("v1", "Service", claim.name, claim.namespace, claim.uid)
        conditions = old.get("conditions") or ()
        before = next((each for each in conditions if each.get("type") == READY), {})
        if (before.get("status"), before.get("reason")) == (finding.status, finding.reason):
            return
        unbound = not before or before.get("reason") not in _HELD
        if addresses and unbound:
            held = ", ".join(each.spec.address for each in addresses)
            self._caches.recorder.event(about, "Normal", reasons.ADDRESS_BOUND, f"It holds {held}.")
        if finding.holds:
            self._caches.recorder.event(about, "Normal", reasons.ANNOUNCED, finding.message)
        elif before.get("status") == "True":
            self._caches.recorder.event(about, "Warning", reasons.WITHDRAWN, finding.message)
        elif not addresses:
            self._caches.recorder.event(about, "Warning", finding.reason, finding.message)


_HELD = frozenset({reasons.ANNOUNCED, reasons.NO_ENDPOINTS, reasons.NO_GATEWAY, reasons.NOT_ANNOUNCED})


def services_of(item: Item[PublicAddress]) -> list[str]:
    """Return the keys of the Services that hold an address."""
    return [f"{each.namespace}/{each.name}" for each in holders(item.object) if each.kind == "Service"]
