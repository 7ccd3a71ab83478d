"""Binds Services and Workloads to PublicAddresses, the oldest first, in one pass of one worker.

All claims share one pass, since a claim may come from any pool. Claims that hold all their addresses cost a lookup. The
last verdict about each claim is kept for the loop that writes the status of its holder; a restart computes it again.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.status import ApiError, Conflict, NotFound
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.ingress.binder import PublicAddressBinder
from tarmac.controllers.ingress.caches import IngressCaches
from tarmac.decide.ingress.addressclaims import IngressClaim
from tarmac.decide.ingress.binding import PoolBook, holders, phase_of
from tarmac.decide.pooled.overlap import RangeOwner
from tarmac.decide.verdict import Refusal

_KEY = "claims"
_DEBOUNCE = 0.05  # objects of one manifest arrive together
_TURN = 64  # claims between two turns of the event loop


class IngressClaimLoop:
    """One key and one worker, so that no address is assigned twice."""

    def __init__(self, context: ControllerContext, caches: IngressCaches) -> None:
        self._caches, self._binder = caches, PublicAddressBinder(caches)
        self.refusals: dict[str, tuple[Refusal, ...]] = {}  # by the key of the claim
        self.controller = context.controller("public-address-claims", self.reconcile, workers=1)
        for informer in (caches.pools, caches.namespaces, caches.classes):
            self.controller.watches(informer, lambda _: (_KEY,), after=_DEBOUNCE)
        for informer in (caches.services, caches.workloads, caches.networks, caches.nodes, caches.known_addresses):
            self.controller.awaits(informer)
        caches.claim_listeners.append(lambda _: self._again())
        # Only what decisions depend on: nodes report in the status of every address all the time.
        caches.known_addresses.on_change(self._address_changed)
        self._listeners: list[Any] = []

    def on_decision(self, listener: Any) -> None:
        """Call `listener` with the key of each claim whose verdict has changed."""
        self._listeners.append(listener)

    def _again(self) -> None:
        self.controller.queue.add_after(_KEY, _DEBOUNCE)

    def _address_changed(self, old: Item[PublicAddress] | None, new: Item[PublicAddress] | None) -> None:
        if _basis(old) != _basis(new):
            self._again()

    async def reconcile(self, _: str) -> RetryAfter | None:
        """Bind every claim that lacks an address."""
        caches = self._caches
        # The oldest first: when addresses are scarce, a new claim must not overtake one that waits.
        claims = sorted(caches.claims.values(), key=lambda claim: (claim.created, claim.namespace, claim.name))
        book = self._book(claims)
        failures: list[ApiError] = []
        for number, claim in enumerate(claims):
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
            try:
                verdict = await self._binder.bind(claim, book)
            except ApiError as error:
                failures.append(error)  # concerns this claim only: the remaining claims are served
            else:
                self._note(claim.key, verdict.refusals)
        for key in [key for key in self.refusals if key not in caches.claims]:
            del self.refusals[key]
        # Any other error is the server's: the pass is repeated with back-off.
        if any(not isinstance(each, Conflict | NotFound) for each in failures):
            raise failures[0]
        return RetryAfter(1.0) if failures else None

    def _note(self, key: str, refusals: tuple[Refusal, ...]) -> None:
        if self.refusals.get(key) != refusals:
            self.refusals[key] = refusals
            for listener in self._listeners:
                listener(key)

    def _book(self, claims: list[IngressClaim]) -> PoolBook:
        caches = self._caches
        classes = [
            RangeOwner(
                (each.object.metadata.creation_timestamp or "", each.object.metadata.name),
                f"SourceIPClass {each.object.metadata.name}",
                each.object.spec.ranges,
            )
            for each in caches.classes.cache.items()
        ]
        return PoolBook(
            [item.object for item in caches.pools.cache.items()],
            list(caches.addresses),
            {claim.uid: claim for claim in claims},
            allowed=caches.allowed,
            interfaces=caches.interfaces(),
            uid_of=caches.uid_of,
            others=classes,
        )


def _basis(item: Item[PublicAddress] | None) -> object:
    if item is None:
        return None
    found = item.object
    return found.spec.pool_name, holders(found), phase_of(found), found.metadata.deletion_timestamp
