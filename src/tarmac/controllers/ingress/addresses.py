"""Reconciles PublicAddresses: phase and announcements while they are held; release, rest and deletion afterwards.

Each pass takes one step, derived only from the current object (`decide.ingress.releasing`).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from msgspec.structs import replace

from tarmac.api.declare import encode
from tarmac.api.ingress.names import ADDRESS_FINALIZER, API_VERSION
from tarmac.api.ingress.publicaddress import HolderReference, PublicAddress, PublicAddressStatus
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.client.eventrecorder import EventType, InvolvedObject
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.ingress.caches import BY_HOLDER, MANAGER, IngressCaches
from tarmac.controllers.writes import delete_same, release, set_finalizers, write_status
from tarmac.decide import reasons
from tarmac.decide.ingress.addressclaims import IngressClaim, key_of, service_claim, workload_claim
from tarmac.decide.ingress.announcing import address_finding, has_conflict, reports
from tarmac.decide.ingress.binding import holders, phase_of
from tarmac.decide.ingress.releasing import AddressStep, next_step
from tarmac.decide.pooled.releasing import hold_down
from tarmac.decide.rollup import merge

_DEBOUNCE = 0.1  # several nodes report about one address together
_PHASE_EVENTS = {"Quarantined": "Quarantined", "Available": "Freed"}


class PublicAddressLoop:
    """Reconciles by the name of the PublicAddress."""

    def __init__(self, context: ControllerContext, caches: IngressCaches) -> None:
        self._caches = caches
        self.controller = context.controller("public-addresses", self.reconcile)
        self.controller.watches(caches.known_addresses, after=_DEBOUNCE)
        for informer in (caches.pools, caches.services, caches.workloads, caches.nodes, caches.namespaces):
            self.controller.awaits(informer)
        caches.claim_listeners.append(self._claim_changed)
        caches.services.on_change(lambda old, new: self._holder_changed(new or old))
        caches.workloads.on_change(lambda old, new: self._holder_changed(new or old))
        caches.node_views.listeners.append(self._nodes_changed)

    def _holder_changed(self, item: Item[Any] | None) -> None:
        self._queue(item.metadata.uid if item is not None else "")

    def _claim_changed(self, key: str) -> None:
        claim = self._caches.claims.get(key)
        self._queue(claim.uid if claim is not None else "")

    def _queue(self, uid: str) -> None:
        for item in self._caches.known_addresses.indexed(BY_HOLDER, uid) if uid else ():
            self.controller.queue.add(item.key)

    def _nodes_changed(self) -> None:
        for name in self._caches.known_addresses.cache.keys():  # noqa: SIM118 no mapping
            self.controller.queue.add_after(name, 1.0)

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Take the next step for one address."""
        caches = self._caches
        known = caches.addresses.get(name)
        if known is None:
            return None
        protected = ADDRESS_FINALIZER in known.metadata.finalizers
        # The finalizer first, alone: without it the object could vanish while a node still announces the address.
        if not protected and known.metadata.deletion_timestamp is None:
            finalizers = [*known.metadata.finalizers, ADDRESS_FINALIZER]
            await set_finalizers(caches.address_resource, known.metadata, finalizers)
            return None
        pool = caches.pools.get(known.spec.pool_name)
        found = reports(known, pool, caches.node_views.views)
        # A holder missing in the cache counts as gone only if the server agrees: released too early, the address could
        # be given to another Service while clients use it.
        alive = [self._placed(each) for each in holders(known) if await self._is_alive(each, known)]
        rest = hold_down(pool.spec.hold_down if pool is not None else "")
        carried = any(each.entry.announcing for each in found)
        step = next_step(known, alive, carried=carried, rest=rest, now=caches.clock.now())
        await self._take(known, step, protected=protected)
        return RetryAfter(step.after) if step.after is not None else None

    def _placed(self, reference: HolderReference) -> HolderReference:
        """Return the reference with the uid of its namespace: the holder exists, so it is the one it was made in."""
        uid = reference.namespace_uid or self._caches.uid_of(reference.namespace)
        return replace(reference, namespace_uid=uid)

    async def _is_alive(self, reference: HolderReference, known: PublicAddress) -> bool:
        """Return True if the holder of this uid exists, and still wants an address of this family."""
        if not reference.uid:
            return False
        claim = self._caches.claims.get(key_of(reference)) or await self._fetch_claim(reference)
        family = f"IPv{ip_address(known.spec.address).version}"
        return claim is not None and claim.uid == reference.uid and family in claim.families

    async def _fetch_claim(self, reference: HolderReference) -> IngressClaim | None:
        """Read a holder from the server: it may be newer than the cache."""
        caches = self._caches
        try:
            if reference.kind == "Service":
                return service_claim(await caches.service_resource.get(reference.name, reference.namespace))
            workload = await caches.workload_resource.get(reference.name, reference.namespace)
            return workload_claim(workload, caches.families_of(workload))
        except NotFound:
            return None

    async def _take(self, known: PublicAddress, step: AddressStep, *, protected: bool) -> None:
        resource = self._caches.address_resource
        if step.delete:
            await delete_same(resource, known.metadata)
            self._record(known, "Normal", "Freed", f"{known.spec.address} has rested and is free.")
        # Last: until then the object is the record that keeps the address from being taken again.
        elif step.unprotect:
            if protected:
                await release(resource, known.metadata, ADDRESS_FINALIZER)
        elif step.claims is not None:
            await self._rewrite_claims(known, step.claims)
        else:
            await self._write_status(known, step.status)

    async def _rewrite_claims(self, known: PublicAddress, claims: tuple[HolderReference, ...]) -> None:
        # Conditional: a holder bound since the read must not be dropped from the list.
        first, others = (encode(claims[0]) if claims else None), [encode(each) for each in claims[1:]]
        version = {"resourceVersion": known.metadata.resource_version}
        body: JsonObject = {"metadata": version, "spec": {"claimRef": first, "sharedBy": others or None}}
        changed = await self._caches.address_resource.patch(known.metadata.name, body, manager=MANAGER)
        self._caches.addresses.wrote(changed)

    async def _write_status(self, known: PublicAddress, wanted: PublicAddressStatus) -> None:
        """Write phase, condition and the entries of nodes that still exist."""
        caches, own, old = self._caches, known.metadata, known.status or PublicAddressStatus()
        views = caches.node_views.views
        found = reports(known, caches.pools.get(known.spec.pool_name), views)
        finding = address_finding(found)
        phase = wanted.phase
        if phase in ("Bound", "Conflict"):
            phase = "Conflict" if has_conflict(found) else "Bound"
        status = replace(
            wanted,
            observed_generation=own.generation,
            conditions=merge(old.conditions, [finding], own.generation, caches.clock.now()),
            phase=phase,
            nodes=[each for each in wanted.nodes if each.name in views],
        )
        written = await write_status(caches.address_resource, own, known.status, status, MANAGER)
        if written is not None:
            caches.addresses.wrote(written)
            self._record_changes(known, old, status)

    def _record_changes(self, known: PublicAddress, old: PublicAddressStatus, new: PublicAddressStatus) -> None:
        before, last, address = phase_of(known), new.last_claim, known.spec.address
        for node in sorted({each.name for each in (*old.nodes, *new.nodes)}):
            was, now = (next((each for each in status.nodes if each.name == node), None) for status in (old, new))
            if was is not None and was.announcing and now is None:
                self._record(known, "Normal", "Withdrawn", f"{address} is not announced by {node}: the node is gone.")
        self._record_announcement(known, old, new)
        if not before or new.phase == before:
            return
        if new.phase == "Conflict":
            message = f"Another host on the segment has {address}."
            self._record(known, "Warning", reasons.ADDRESS_CONFLICT, message)
        elif new.phase == "Released" and last is not None and last.kind is not None:
            version = "v1" if last.kind == "Service" else "compute.datumapis.com/v1alpha"
            about = InvolvedObject(version, last.kind, last.name, last.namespace, last.uid)
            self._caches.recorder.event(about, "Normal", "Released", f"{address} is released, and will rest.")
        elif reason := _PHASE_EVENTS.get(new.phase or ""):
            whose = f" It was that of {last.namespace}/{last.name}." if last is not None else ""
            self._record(known, "Normal", reason, f"{address} is {new.phase}.{whose}")

    def _record_announcement(self, known: PublicAddress, old: PublicAddressStatus, new: PublicAddressStatus) -> None:
        """Record that the address is announced, is not any more, or is from other places."""
        before, after = (
            next((each for each in status.conditions if each.type == "Announced"), None) for status in (old, new)
        )
        was, now = before is not None and before.status == "True", after is not None and after.status == "True"
        if after is None or (was, before and before.message) == (now, after.message) or not (was or now):
            return
        if not now:
            self._record(known, "Warning", reasons.WITHDRAWN, after.message)
        else:
            self._record(known, "Normal", "Moved" if was else reasons.ANNOUNCED, after.message)

    def _record(self, known: PublicAddress, type: EventType, reason: str, message: str) -> None:
        about = InvolvedObject(API_VERSION, "PublicAddress", known.metadata.name, "", known.metadata.uid)
        self._caches.recorder.event(about, type, reason, message)
