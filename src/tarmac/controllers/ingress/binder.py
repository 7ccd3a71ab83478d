"""Takes public addresses for Services and Workloads.

An address is taken by creating the PublicAddress of its name, or by a conditional update of an existing one. Both
succeed for only one of several concurrent writers.
"""

from __future__ import annotations

from tarmac.api.declare import encode
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.names import ADDRESS_FINALIZER, API_VERSION
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, Conflict, NotFound
from tarmac.controllers.ingress.caches import MANAGER, IngressCaches
from tarmac.decide.ingress.addressclaims import IngressClaim
from tarmac.decide.ingress.binding import Binding, PoolBook, Take, holders, phase_of
from tarmac.decide.pooled.pool import RESTING
from tarmac.decide.verdict import Verdict

_TRIES = 64  # addresses lost to concurrent writers before the pass fails and is retried


class PublicAddressBinder:
    """Writes PublicAddresses on behalf of claims."""

    def __init__(self, caches: IngressCaches) -> None:
        self._caches = caches

    async def bind(self, claim: IngressClaim, book: PoolBook) -> Verdict[Binding]:
        """Take the addresses that the book chooses for the claim, one after another.

        Raises Conflict after `_TRIES` lost races, and while the cached namespace is older than the claim.
        """
        for _ in range(_TRIES):
            verdict = book.bind(claim)
            free = next((take for take in verdict.value.takes if not take.held), None) if verdict.value else None
            if verdict.value is None or free is None:
                return verdict
            if free.known is not None and phase_of(free.known) in RESTING:
                # It returns to the namespace that had it: one made again under the name is another tenant's.
                await self._confirm_namespace(claim.namespace)
            try:
                taken = await self._take(claim, free, verdict.value.pool)
            except (AlreadyExists, Conflict, NotFound):
                # Lost to a concurrent writer: the book must not choose it again in this pass, whatever the cache shows.
                book.lose(verdict.value.pool.metadata.name, free.address)
                taken = await self._written_concurrently(free.name)
            if taken is not None:
                # Visible at once: the next claim of this pass must not take the same address from an outdated cache.
                self._caches.addresses.wrote(taken)
                book.put(taken)
        raise Conflict("too many claims take addresses at once")

    async def _confirm_namespace(self, name: str) -> None:
        """Compare the cached namespace with the server's before an address goes back to it. Raises Conflict, NotFound.

        The cache of Services may be ahead of that of namespaces: the Service may be of a namespace made again.
        """
        found = await self._caches.namespace_resource.get(name)
        if found["metadata"]["uid"] != self._caches.uid_of(name):
            raise Conflict("our copy of the namespace is behind")

    async def _written_concurrently(self, name: str) -> PublicAddress | None:
        """Return the address that was written concurrently. Another process may have taken it for this very claim."""
        try:
            return await self._caches.address_resource.get(name)
        except NotFound:
            return None

    async def _take(self, claim: IngressClaim, take: Take, pool: AddressPool) -> PublicAddress:
        """Take the address for the claim.

        Creating the object is the lock; an update is conditional on the version read.
        """
        resource = self._caches.address_resource
        reference: JsonObject = {
            "kind": claim.kind,
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "namespaceUID": self._caches.uid_of(claim.namespace),
        }
        if take.known is None:
            spec: JsonObject = {
                "address": str(take.address),
                "poolName": pool.metadata.name,
                "claimRef": reference,
                "reclaimPolicy": pool.spec.reclaim_policy,
            }
            # Created with its finalizer: added later, a deletion could come first, and free an address in use.
            metadata = {"name": take.name, "finalizers": [ADDRESS_FINALIZER]}
            body = {"apiVersion": API_VERSION, "kind": "PublicAddress", "metadata": metadata, "spec": spec}
            return await resource.create(body, manager=MANAGER)
        return await self._update(take.known, reference)

    async def _update(self, known: PublicAddress, reference: JsonObject) -> PublicAddress:
        resource, name = self._caches.address_resource, known.metadata.name
        present = [each for each in holders(known) if each.uid]
        resting = phase_of(known) in RESTING
        shared = [encode(each) for each in present] if not resting else []
        spec: JsonObject = {"sharedBy": [*shared[1:], reference]} if shared else {"claimRef": reference}
        version = {"resourceVersion": known.metadata.resource_version}
        changed = await resource.patch(name, {"metadata": version, "spec": spec}, manager=MANAGER)
        if phase_of(changed) not in RESTING:
            return changed
        # The address rested and returns to the namespace that had it. If a crash prevents this write, the loop of
        # addresses finds a live holder and writes it.
        version = {"resourceVersion": changed.metadata.resource_version}
        body = {"metadata": version, "status": {"phase": "Bound", "quarantinedUntil": None}}
        return await resource.patch(name, body, subresource="status", manager=MANAGER)
