"""Binding of claims: may a claim get an address now, and does a bound claim still hold its addresses?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.sourceip import SourceIPClaim, SourceIPClass
from tarmac.decide import reasons
from tarmac.decide.egress.addressclasses import overlapped_by
from tarmac.decide.egress.model import EgressModel
from tarmac.decide.egress.pool import SourceIPPool, Takes
from tarmac.decide.egress.sources import first_place
from tarmac.decide.verdict import Refusal, Verdict

UNPLACED: Final = "location"
"""The rule of the refusal that is lifted once pods run at a Location."""


def has_been_bound(claim: SourceIPClaim) -> bool:
    """Return True if the claim is or was bound: then it never gets different addresses."""
    return claim.status is not None and claim.status.phase in ("Bound", "Lost")


def decide_claim(
    claim: SourceIPClaim, offered: SourceIPClass | None, pool: SourceIPPool | None, world: EgressModel
) -> Verdict[Takes]:
    """Return the claim's addresses, or the reason why it has none."""
    if has_been_bound(claim):
        return kept(claim, pool)
    refusal = refused(claim, offered, world.naming(claim), world)
    if refusal is not None or pool is None:
        return Verdict(None, (refusal,) if refusal is not None else ())
    return pool.bind(claim)


def kept(claim: SourceIPClaim, pool: SourceIPPool | None) -> Verdict[Takes]:
    """Return the addresses of a bound claim, or `AddressLost` unless it still holds all of them."""
    verdict = pool.bind(claim) if pool is not None else None
    takes = (verdict.value if verdict is not None else None) or ()
    if (
        takes
        and verdict is not None
        and pool is not None
        and all(take.held and pool.ranges.hold(take.address) for take in takes)
    ):
        return verdict
    message = "Its address is gone, or no range of the class holds it."
    return Verdict(None, (Refusal(reasons.ADDRESS_LOST, message, rule="claim"),))


def refused(
    claim: SourceIPClaim, offered: SourceIPClass | None, users: Sequence[ExternalService], world: EgressModel
) -> Refusal | None:
    """Return why an unbound claim may not get an address now, regardless of free addresses; None if it may."""
    name, namespace = claim.spec.class_name, claim.metadata.namespace
    if claim.metadata.deletion_timestamp is not None:
        return Refusal(reasons.TERMINATING, "The claim is being deleted.", rule="claim")
    if offered is None:
        message = f"SourceIPClass {name} does not exist."
        return Refusal(
            reasons.CLASS_NOT_FOUND, message, name, "class", f"Name another class, or ask a manager for {name}."
        )
    older = overlapped_by(offered, world.classes())
    if older is not None:
        return older
    if not world.allowed(offered, namespace):
        message = f"SourceIPClass {name} does not allow namespace {namespace}."
        return Refusal(reasons.NOT_AUTHORIZED, message, name, "class", "Ask a manager to allow the namespace.")
    places = {each.name for each in offered.spec.locations}
    if claim.spec.location and places and claim.spec.location not in places:
        message = f"Addresses of SourceIPClass {name} are not routable at {claim.spec.location}."
        return Refusal(reasons.LOCATION_NOT_IN_CLASS, message, rule="class", change="Choose a Location of the class.")
    return _unused(claim, offered, users, world) if offered.spec.binding_mode == "WaitForFirstConsumer" else None


def _unused(
    claim: SourceIPClaim, offered: SourceIPClass, users: Sequence[ExternalService], world: EgressModel
) -> Refusal | None:
    """Return why a claim still waits for its first consumer; None if it does not."""
    if not users:
        message = "No ExternalService names the claim yet."
        return Refusal(reasons.WAIT_FOR_FIRST_CONSUMER, message, rule="claim")
    if claim.spec.location or first_place(users[0], offered, world):
        return None
    message = f"No pod of ExternalService {users[0].metadata.name} runs yet: there is no Location to choose."
    return Refusal(reasons.WAIT_FOR_FIRST_CONSUMER, message, rule=UNPLACED)
