"""Release of a public address after its holder is gone, in the steps that all pools share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tarmac.api.declare import Time
from tarmac.api.ingress.publicaddress import HolderReference, LastHolder, PublicAddress, PublicAddressStatus
from tarmac.base.clock import rfc3339
from tarmac.decide.ingress.binding import holders, phase_of
from tarmac.decide.pooled.releasing import ReleasedAddress, ReleaseStep, next_release_step


@dataclass(frozen=True, slots=True)
class AddressStep:
    """The next step for an address, and the delay until the next reconcile. `status` is what it is then."""

    status: PublicAddressStatus
    claims: tuple[HolderReference, ...] | None = None  # the holders from now on
    delete: bool = False
    unprotect: bool = False
    after: float | None = None


def next_step(
    address: PublicAddress, alive: Sequence[HolderReference], *, carried: bool, rest: float, now: float
) -> AddressStep:
    """Return the next step. `alive` are the holders that still exist; `carried`: a node still announces it."""
    status = address.status or PublicAddressStatus()
    last = status.last_claim
    known = ReleasedAddress(
        holders(address),
        phase_of(address),
        retained=address.spec.reclaim_policy == "Retain",
        going=address.metadata.deletion_timestamp is not None,
        released_at=(last.released_at if last is not None else None) or "",
        until=status.quarantined_until or "",
    )
    step = next_release_step(known, alive, carried=carried, rest=rest, now=now)
    return AddressStep(_status(status, step, rest, now), step.claims, step.delete, step.unprotect, step.after)


def _status(
    status: PublicAddressStatus, step: ReleaseStep[HolderReference], rest: float, now: float
) -> PublicAddressStatus:
    if step.phase is None:
        return status
    if step.released is not None:
        last = step.released
        was = LastHolder(last.namespace, last.kind, last.name, last.uid, last.namespace_uid, Time(rfc3339(now)))
        return replace(status, phase=step.phase, last_claim=was)
    return replace(status, phase=step.phase, quarantined_until=Time(rfc3339(now + rest)) if step.rests else None)
