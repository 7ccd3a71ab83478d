"""Writes the nodes of each public address's lease: candidates, voters, and former candidates.

Writes are conditional on the version that they were decided from: the loop of claims writes the same objects, and a
step of the voters must rest on the acknowledgements of the step before (`decide.pooled.members`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tarmac.api.declare import encode
from tarmac.api.ingress.addresspool import AddressPool, announcement
from tarmac.api.ingress.publicaddress import PublicAddress, PublicAddressSpec
from tarmac.api.schema import JsonObject
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.ingress.caches import BY_POOL, MANAGER, IngressCaches
from tarmac.controllers.writes import difference
from tarmac.decide.ingress.members import address_members, owner_of
from tarmac.decide.pooled.members import Members

_DEBOUNCE = 0.1  # several nodes acknowledge together
_LATER = 1.0  # nodes change together


class MemberLoop:
    """Reconciles by the name of the PublicAddress."""

    def __init__(self, context: ControllerContext, caches: IngressCaches) -> None:
        self._caches = caches
        self.controller = context.controller("public-address-members", self.reconcile)
        self.controller.watches(caches.known_addresses, after=_DEBOUNCE)
        self.controller.watches(
            caches.pools,
            lambda item: [each.key for each in caches.known_addresses.indexed(BY_POOL, item.metadata.name)],
            after=_DEBOUNCE,
        )
        self.controller.awaits(caches.nodes)
        caches.node_views.listeners.append(self._nodes_changed)

    def _nodes_changed(self) -> None:
        for name in self._caches.known_addresses.cache.keys():  # noqa: SIM118 no mapping
            self.controller.queue.add_after(name, _LATER)

    async def reconcile(self, name: str) -> None:
        """Write the members of one address."""
        caches, known = self._caches, self._caches.addresses.get(name)
        pool = caches.pools.get(known.spec.pool_name) if known is not None else None
        if known is None or pool is None or known.metadata.deletion_timestamp is not None:
            return
        chosen = address_members(known, pool, list(caches.node_views.views.values()), self._load(known, pool))
        patch = difference(_written(known.spec), _written(chosen))
        if patch:
            version = {"resourceVersion": known.metadata.resource_version}
            changed = await caches.address_resource.patch(name, {"metadata": version, "spec": patch}, manager=MANAGER)
            caches.addresses.wrote(changed)

    def _load(self, known: PublicAddress, pool: AddressPool) -> Mapping[str, int]:
        """Count the other addresses that each node owns, where their number is limited."""
        if announcement(pool.spec) != "virtualMAC":
            return {}
        others = (each for each in self._caches.addresses if each.metadata.name != known.metadata.name)
        return Counter(owner.name for each in others if (owner := owner_of(each)) is not None)


def _written(members: Members | PublicAddressSpec) -> JsonObject:
    lists = {"candidates": members.candidates, "voters": members.voters, "leaving": members.leaving}
    return {field: [encode(each) for each in nodes] for field, nodes in lists.items()}
