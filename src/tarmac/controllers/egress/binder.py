"""Takes addresses for claims, and returns addresses taken by incomplete passes.

An address is taken by creating the SourceIP of its name, or by a conditional update of an existing one. Both succeed
for only one of several concurrent writers.
"""

from __future__ import annotations

from tarmac.api.declare import encode
from tarmac.api.egress.names import ADDRESS_FINALIZER, API_VERSION
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, Conflict, NotFound
from tarmac.controllers.egress.cachedmodel import CachedEgressModel
from tarmac.controllers.egress.caches import MANAGER, EgressCaches
from tarmac.decide.egress.claims import RESTING, holders, phase_of
from tarmac.decide.egress.pool import SourceIPPool, Take, Takes
from tarmac.decide.egress.sources import first_place
from tarmac.decide.verdict import Verdict

_TRIES = 64  # addresses lost to concurrent writers before the pass fails and is retried


class SourceIPBinder:
    """Writes SourceIPs on behalf of claims."""

    def __init__(self, caches: EgressCaches, model: CachedEgressModel) -> None:
        self._caches, self._model = caches, model

    async def bind(self, claim: SourceIPClaim, pool: SourceIPPool) -> Verdict[Takes]:
        """Take the addresses that the pool chooses for the claim, one after another.

        Raises Conflict after `_TRIES` lost races, and while the cached namespace is older than the claim.
        """
        for _ in range(_TRIES):
            verdict = pool.bind(claim)
            if verdict.value is None:
                await self._release_held(claim, pool)
                return verdict
            free = next((take for take in verdict.value if not take.held), None)
            if free is None:
                return verdict
            if free.known is not None and phase_of(free.known) in RESTING:
                # It returns to the namespace that had it: one made again under the name is another tenant's.
                await self._confirm_namespace(claim.metadata.namespace)
            try:
                taken = await self._take(claim, free, pool.offered)
            except (AlreadyExists, Conflict, NotFound):
                # Lost to a concurrent writer: the pool must not choose it again in this pass, whatever the cache shows.
                pool.lose(free.address)
                taken = await self._written_concurrently(free.name)
            if taken is not None:
                # Visible at once: the next claim of this pass must not take the same address from an outdated cache.
                self._caches.source_ips.wrote(taken)
                pool.put(taken)
        raise Conflict("too many claims take addresses of this class at once")

    async def _confirm_namespace(self, name: str) -> None:
        """Compare the cached namespace with the server's before an address goes back to it. Raises Conflict, NotFound.

        The cache of claims may be ahead of that of namespaces: the claim may be of a namespace made again.
        """
        found = await self._caches.namespace_resource.get(name)
        if found["metadata"]["uid"] != self._caches.uid_of(name):
            raise Conflict("our copy of the namespace is behind")

    async def _written_concurrently(self, name: str) -> SourceIP | None:
        """Return the SourceIP that was written concurrently. Another process may have taken it for this very claim."""
        try:
            return await self._caches.source_ip_resource.get(name)
        except NotFound:
            return None

    async def _take(self, claim: SourceIPClaim, take: Take, offered: SourceIPClass) -> SourceIP:
        """Take the address for the claim.

        Creating the object is the lock; an update is conditional on the version read.
        """
        resource, own = self._caches.source_ip_resource, claim.metadata
        place = {"namespace": own.namespace, "namespaceUID": self._caches.uid_of(own.namespace)}
        reference: JsonObject = {**place, "name": own.name, "uid": own.uid}
        if take.known is None:
            spec: JsonObject = {
                "address": str(take.address),
                "className": offered.metadata.name,
                "claimRef": reference,
                "reclaimPolicy": offered.spec.reclaim_policy,
                **({"location": place} if (place := self._place(claim, offered)) else {}),
            }
            # Created with its finalizer: added later, a deletion could come first, and free an address in use.
            metadata = {"name": take.name, "finalizers": [ADDRESS_FINALIZER]}
            body = {"apiVersion": API_VERSION, "kind": "SourceIP", "metadata": metadata, "spec": spec}
            return await resource.create(body, manager=MANAGER)
        known = take.known
        meant = known.spec.claim_ref is not None and not known.spec.claim_ref.uid
        shared = [encode(each) for each in holders(known)] if known.spec.claim_ref is not None and not meant else []
        spec = {"sharedBy": [*shared[1:], reference]} if shared else {"claimRef": reference}
        version = {"resourceVersion": known.metadata.resource_version}
        changed = await resource.patch(take.name, {"metadata": version, "spec": spec}, manager=MANAGER)
        if changed.status is None or changed.status.phase not in ("Released", "Quarantined"):
            return changed
        # The address was in quarantine and returns to the namespace that had it. If a crash prevents this write, the
        # loop of addresses finds a live claim and writes it.
        version = {"resourceVersion": changed.metadata.resource_version}
        status = {"phase": "Bound", "quarantinedUntil": None}
        body = {"metadata": version, "status": status}
        return await resource.patch(take.name, body, subresource="status", manager=MANAGER)

    def _place(self, claim: SourceIPClaim, offered: SourceIPClass) -> str:
        """Return the Location where the address is to be carried; empty: any Location of the class."""
        users = self._caches.users(claim)
        if claim.spec.location or offered.spec.binding_mode == "Immediate" or not users:
            return claim.spec.location
        return first_place(users[0], offered, self._model)

    async def _release_held(self, claim: SourceIPClaim, pool: SourceIPPool) -> None:
        """Release the addresses of an interrupted pass that the claim does not use: it gets all families or none."""
        for known in pool.held_by(claim):
            version = {"resourceVersion": known.metadata.resource_version}
            body: JsonObject = {"metadata": version, "spec": {"claimRef": None}}
            freed = await self._caches.source_ip_resource.patch(known.metadata.name, body, manager=MANAGER)
            self._caches.source_ips.wrote(freed)
