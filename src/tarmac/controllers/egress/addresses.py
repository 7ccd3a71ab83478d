"""Reconciles SourceIPs: phase and identity while claims hold one, and its release, quarantine and deletion afterwards.

Each pass takes one step, derived only from the current object (`decide.egress.releasing`).
"""

from __future__ import annotations

from msgspec.structs import replace

from tarmac.api.declare import encode
from tarmac.api.egress.names import ADDRESS_FINALIZER, API_VERSION, NAMESPACE
from tarmac.api.egress.sourceip import AddressOwner, ClaimReference, SourceIP, SourceIPStatus
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.client.controller import RetryAfter
from tarmac.client.eventrecorder import EventType, InvolvedObject
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.egress.caches import MANAGER, EgressCaches
from tarmac.controllers.writes import delete_same, release, set_finalizers, write_status
from tarmac.decide import reasons
from tarmac.decide.egress.addressownership import last_failover, owned, owner_changed, phase_with
from tarmac.decide.egress.claims import holders, phase_of
from tarmac.decide.egress.numbers import next_id
from tarmac.decide.egress.releasing import SourceIPRelease, next_step
from tarmac.decide.egress.status import conflicts, owner_of
from tarmac.decide.pooled.releasing import hold_down
from tarmac.decide.rollup import merge
from tarmac.decide.verdict import Refusal

_PHASE_EVENTS = {"Quarantined": "Quarantined", "Available": "Freed"}


class AddressLoop:
    """Reconciles by the name of the SourceIP. One worker, since it assigns the identities."""

    def __init__(self, context: ControllerContext, caches: EgressCaches) -> None:
        self._caches = caches
        self._last_id = 0
        self.controller = context.controller("source-ips", self.reconcile, workers=1)
        self.controller.watches(caches.known_source_ips)
        self.controller.watches(
            caches.claims, lambda item: item.object.status.source_ip_names if item.object.status else []
        )
        self.controller.watches(caches.known_gateways, lambda item: (item.metadata.name,))
        self.controller.awaits(caches.classes)
        self.controller.awaits(caches.namespaces)

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Take the next step for one address."""
        known = self._caches.source_ips.get(name)
        if known is None:
            return None
        protected = ADDRESS_FINALIZER in known.metadata.finalizers
        # The finalizer first, alone: without it the object could vanish while a node still serves the address.
        if not protected and known.metadata.deletion_timestamp is None:
            finalizers = [*known.metadata.finalizers, ADDRESS_FINALIZER]
            await set_finalizers(self._caches.source_ip_resource, known.metadata, finalizers)
            return None
        offered = self._caches.classes.get(known.spec.class_name)
        rest = hold_down(offered.spec.hold_down if offered is not None else "")
        # A holder missing in the cache counts as gone only if the server agrees: released too early, the address could
        # be given to another claim while services use it.
        alive = [self._placed(each) for each in holders(known) if await self._is_alive(each, name)]
        carried = self._caches.gateways.get(f"{NAMESPACE}/{name}") is not None
        step = next_step(known, alive, carried=carried, rest=rest, now=self._caches.clock.now())
        await self._take(known, step, protected=protected)
        return RetryAfter(step.after) if step.after is not None else None

    def _placed(self, reference: ClaimReference) -> ClaimReference:
        """Return the reference with the uid of its namespace, which addresses bound by earlier versions lack.

        The claim exists, and a namespace outlives its claims: the namespace is the one that the claim was made in.
        """
        uid = reference.namespace_uid or self._caches.uid_of(reference.namespace)
        return replace(reference, namespace_uid=uid)

    async def _is_alive(self, reference: ClaimReference, name: str) -> bool:
        """Return True if the claim of this uid exists and is not bound to a different address.

        A claim missing from the cache is read from the server: it may be newer than the cache. Two processes that once
        ran side by side may have taken two addresses for one claim; the address that the claim does not name is
        released.
        """
        if not reference.uid:
            return False
        known = self._caches.claims.get(f"{reference.namespace}/{reference.name}")
        if known is None:
            try:
                known = await self._caches.claim_resource.get(reference.name, reference.namespace)
            except NotFound:
                return False
        settled = known.status is not None and known.status.phase == "Bound"
        named = known.status.source_ip_names if known.status is not None else []
        return known.metadata.uid == reference.uid and (not settled or name in named)

    async def _take(self, known: SourceIP, step: SourceIPRelease, *, protected: bool) -> None:
        resource = self._caches.source_ip_resource
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
            await self._write_status(known, step.status or known.status or SourceIPStatus())

    async def _rewrite_claims(self, known: SourceIP, claims: tuple[ClaimReference, ...]) -> None:
        # Conditional: a claim bound since the read must not be dropped from the list.
        first, others = (encode(claims[0]) if claims else None), [encode(each) for each in claims[1:]]
        version = {"resourceVersion": known.metadata.resource_version}
        body: JsonObject = {"metadata": version, "spec": {"claimRef": first, "sharedBy": others or None}}
        changed = await self._caches.source_ip_resource.patch(known.metadata.name, body, manager=MANAGER)
        self._caches.source_ips.wrote(changed)

    async def _write_status(self, known: SourceIP, wanted: SourceIPStatus) -> None:
        """Write the status: phase, identity, and the owner according to the nodes."""
        own, old = known.metadata, known.status or SourceIPStatus()
        gateway = self._caches.gateways.get(f"{NAMESPACE}/{own.name}")
        report, conflict = owner_of(gateway), next(conflicts(own.name, gateway), None)
        owner = AddressOwner(report.name, report.epoch, report.since) if report is not None else None
        number = old.id or self._next_id()
        # Taken before the write: its outcome may stay unknown, and no other address may get the same identity.
        self._caches.identities.put(own.name, number)
        finding = owned(owner, number, conflict)
        status = SourceIPStatus(
            observed_generation=own.generation,
            conditions=merge(old.conditions, [finding], own.generation, self._caches.clock.now()),
            phase=phase_with(wanted.phase, conflict),
            id=number,
            owner=owner,
            last_failover=last_failover(old, report),
            quarantined_until=wanted.quarantined_until,
            last_claim=wanted.last_claim,
        )
        written = await write_status(self._caches.source_ip_resource, own, known.status, status, MANAGER)
        if written is not None:
            self._caches.source_ips.wrote(written)
            self._event(known, status, conflict)
            if news := owner_changed(known.spec.address, old.owner, report):
                self._record(known, "Normal", "OwnerChanged", news)

    def _next_id(self) -> int:
        """Return a free identity; 0 while none is free, and no node carries the address then."""
        taken = self._caches.identities.taken
        found = next_id(taken, self._last_id or max(taken, default=0))
        self._last_id = found or self._last_id
        return found or 0

    def _event(self, known: SourceIP, status: SourceIPStatus, conflict: Refusal | None) -> None:
        before, address, last = phase_of(known), known.spec.address, status.last_claim
        if not before or status.phase == before:
            return
        if status.phase == "Conflict" and conflict is not None:
            self._record(known, "Warning", reasons.ADDRESS_CONFLICT, conflict.message)
        elif status.phase == "Released" and last is not None:
            about = InvolvedObject(API_VERSION, "SourceIPClaim", last.name, last.namespace, last.uid)
            self._caches.recorder.event(about, "Normal", "Released", f"{address} is released, and will rest.")
        elif reason := _PHASE_EVENTS.get(status.phase or ""):
            whose = f" It was that of {last.namespace}/{last.name}." if last is not None else ""
            self._record(known, "Normal", reason, f"{address} is {status.phase}.{whose}")

    def _record(self, known: SourceIP, type: EventType, reason: str, message: str) -> None:
        about = InvolvedObject(API_VERSION, "SourceIP", known.metadata.name, "", known.metadata.uid)
        self._caches.recorder.event(about, type, reason, message)
