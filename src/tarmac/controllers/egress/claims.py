"""Reconciles SourceIPClaims: binds the claims of a class to SourceIPs, the oldest first, in one pass of one worker.

The address is taken first (`binder`), then the claim's status becomes Bound. A crash in between leaves a SourceIP that
names the claim by uid; the next pass finds it and completes the binding.

A claim that was bound never gets a different address: when its own is gone, the claim is Lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tarmac.api.conditions import holds
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.names import API_VERSION, CLAIM_FINALIZER
from tarmac.api.egress.sourceip import SourceIPClaim, SourceIPClaimStatus, SourceIPClass
from tarmac.api.status import ApiError, Conflict, NotFound
from tarmac.base.clock import parse_rfc3339
from tarmac.base.metrics import Histogram
from tarmac.client.controller import RetryAfter
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.egress.binder import SourceIPBinder
from tarmac.controllers.egress.cachedmodel import CachedEgressModel
from tarmac.controllers.egress.caches import BY_CLASS, BY_NAMESPACE, MANAGER, EgressCaches
from tarmac.controllers.finalizers import hold
from tarmac.controllers.writes import write_status
from tarmac.decide import reasons
from tarmac.decide.egress.binding import UNPLACED, has_been_bound, kept, refused
from tarmac.decide.egress.claims import is_held_by
from tarmac.decide.egress.pool import SourceIPPool, Takes
from tarmac.decide.rollup import Finding, merge
from tarmac.decide.verdict import Refusal, Verdict

_SHOWN = 3
_PODS_SECONDS = 2.0  # poll interval for a claim that waits for pods: they change too often to be watched


class ClaimLoop:
    """Reconciles by the name of the class. One worker, so that no address is assigned twice."""

    def __init__(
        self, context: ControllerContext, caches: EgressCaches, model: CachedEgressModel, bound: Histogram
    ) -> None:
        """`bound` observes the time from a claim's creation to its binding."""
        self._bound = bound
        self._caches, self._model, self._binder = caches, model, SourceIPBinder(caches, model)
        self.controller = context.controller("source-ip-claims", self.reconcile, workers=1)
        self.controller.watches(caches.classes)
        self.controller.watches(caches.claims, lambda item: (item.object.spec.class_name,))
        self.controller.watches(caches.known_source_ips, lambda item: (item.object.spec.class_name,))
        self.controller.watches(caches.services, lambda item: self._classes_of(item.metadata.namespace))
        self.controller.watches(caches.namespaces, lambda item: self._classes_of(item.metadata.name))
        for informer in (caches.nodes, model.services, model.slices, model.pods):
            self.controller.awaits(informer)

    def _classes_of(self, namespace: str) -> list[str]:
        """Return the classes that a namespace's claims request."""
        claims = self._caches.claims.indexed(BY_NAMESPACE, namespace)
        return sorted({item.object.spec.class_name for item in claims})

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Bind every claim of one class and write its status."""
        claims = [item.object for item in self._caches.claims.indexed(BY_CLASS, name)]
        # The oldest first: when addresses are scarce, a new claim must not overtake one that waits.
        claims.sort(
            key=lambda claim: (claim.metadata.creation_timestamp or "", claim.metadata.namespace, claim.metadata.name)
        )
        offered = self._caches.classes.get(name)
        # One pool for the whole pass: each claim sees the addresses that earlier ones have taken.
        pool = self._pool(offered) if offered is not None else None
        failures: list[ApiError] = []
        unplaced = False
        for claim in claims:
            try:
                verdict = await self._decided(claim, offered, pool)
                unplaced |= any(each.rule == UNPLACED for each in verdict.refusals)
                await self._write_status(claim, offered, verdict)
            except ApiError as error:
                failures.append(error)  # concerns this claim only: the remaining claims are served
        # Any other error is the server's: the pass is repeated with back-off.
        if any(not isinstance(each, Conflict | NotFound) for each in failures):
            raise failures[0]
        if failures:
            return RetryAfter(1.0)  # the cache is behind for some claims
        return RetryAfter(_PODS_SECONDS) if unplaced else None

    def _pool(self, offered: SourceIPClass) -> SourceIPPool:
        name, caches = offered.metadata.name, self._caches
        known = (each for each in caches.source_ips.indexed(BY_CLASS, name) if each.spec.class_name == name)
        return SourceIPPool(offered, known, caches.node_views.addresses, caches.uid_of)

    async def _decided(
        self, claim: SourceIPClaim, offered: SourceIPClass | None, pool: SourceIPPool | None
    ) -> Verdict[Takes]:
        """Return the addresses that the claim holds after this pass. A refusal leaves its status unchanged."""
        if has_been_bound(claim):
            return await self._bound_addresses(claim, pool)
        refusal = refused(claim, offered, self._caches.users(claim), self._model)
        if refusal is not None or pool is None:
            return Verdict(None, (refusal,) if refusal is not None else ())
        return await self._binder.bind(claim, pool)

    async def _bound_addresses(self, claim: SourceIPClaim, pool: SourceIPPool | None) -> Verdict[Takes]:
        """Return the addresses of a bound claim.

        Before the claim is declared Lost, ask the server: the cache may be behind. Raises Conflict when it is.
        """
        verdict = kept(claim, pool)
        if verdict.value is None and pool is not None and await self._still_there(claim):
            raise Conflict("our copy is behind")
        return verdict

    async def _still_there(self, claim: SourceIPClaim) -> bool:
        names = claim.status.source_ip_names if claim.status is not None else []
        for name in names:
            if self._caches.source_ips.get(name) is not None:
                continue
            try:
                found = await self._caches.source_ip_resource.get(name)
            except NotFound:
                return False
            self._caches.source_ips.wrote(found)
            return is_held_by(found, claim)
        return False

    async def _write_status(self, claim: SourceIPClaim, offered: SourceIPClass | None, verdict: Verdict[Takes]) -> None:
        """Set the finalizer, then the status of the claim."""
        users = self._caches.users(claim)
        # The finalizer before the status: a bound claim without it could be deleted while services use its address.
        if await hold(self._caches.claim_resource, claim.metadata, CLAIM_FINALIZER, used=bool(users)):
            return
        old, own = claim.status or SourceIPClaimStatus(), claim.metadata
        findings = [_bound_finding(verdict), self._authorized(claim, offered), _in_use(users)]
        status = SourceIPClaimStatus(
            observed_generation=own.generation,
            conditions=merge(old.conditions, findings, own.generation, self._caches.clock.now()),
            phase=_phase(old, verdict),
            # A claim that is Lost still shows what it had: users must not mistake another address for it.
            addresses=[str(take.address) for take in verdict.value or ()] or old.addresses,
            source_ip_names=[take.name for take in verdict.value or ()] or old.source_ip_names,
        )
        written = await write_status(self._caches.claim_resource, own, claim.status, status, MANAGER)
        if written is not None:
            self._record(claim, old, findings[0])

    def _authorized(self, claim: SourceIPClaim, offered: SourceIPClass | None) -> Finding:
        if offered is not None and self._model.allowed(offered, claim.metadata.namespace):
            return Finding("Authorized", "True", reasons.ADDRESS_BOUND, "The class allows the namespace.")
        message = f"SourceIPClass {claim.spec.class_name} does not allow namespace {claim.metadata.namespace}."
        return Finding("Authorized", "False", reasons.NOT_AUTHORIZED, message)

    def _record(self, claim: SourceIPClaim, old: SourceIPClaimStatus, found: Finding) -> None:
        """Record an event once for a binding, and once for each reason against it."""
        own, before = claim.metadata, next((each for each in old.conditions if each.type == "Bound"), None)
        about = InvolvedObject(API_VERSION, "SourceIPClaim", own.name, own.namespace, own.uid)
        known = before is not None and (before.status, before.reason) == (found.status, found.reason)
        if found.holds and not holds(old.conditions, "Bound"):
            if own.creation_timestamp is not None:
                self._bound.observe(max(0.0, self._caches.clock.now() - parse_rfc3339(own.creation_timestamp)))
            self._caches.recorder.event(about, "Normal", "Bound", found.message)
        elif not found.holds and not known and found.reason != reasons.WAIT_FOR_FIRST_CONSUMER:
            self._caches.recorder.event(about, "Warning", "BindFailed", found.message)


def _phase(old: SourceIPClaimStatus, verdict: Verdict[Takes]) -> Literal["Bound", "Lost", "Pending"]:
    if verdict.value is not None:
        return "Bound"
    return "Lost" if old.phase in ("Bound", "Lost") else "Pending"


def _bound_finding(verdict: Verdict[Takes]) -> Finding:
    if verdict.value is not None:
        held = ", ".join(str(take.address) for take in verdict.value)
        return Finding("Bound", "True", reasons.ADDRESS_BOUND, f"It holds {held}.")
    worst = verdict.refusals[0] if verdict.refusals else Refusal(reasons.CLAIM_NOT_BOUND, "Not processed yet.")
    return Finding("Bound", "False", worst.reason, f"{worst.message} {worst.change}".strip())


def _in_use(users: Sequence[ExternalService]) -> Finding:
    named = ", ".join(f"{each.metadata.namespace}/{each.metadata.name}" for each in users[:_SHOWN])
    if users:
        more = f" and {len(users) - _SHOWN} more" if len(users) > _SHOWN else ""
        return Finding("InUse", "True", reasons.ADDRESS_BOUND, f"ExternalService {named}{more} names it.")
    return Finding("InUse", "False", reasons.WAIT_FOR_FIRST_CONSUMER, "No ExternalService names it.")
