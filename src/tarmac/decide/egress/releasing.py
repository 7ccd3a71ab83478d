"""Release of a SourceIP after its claim is deleted, in the steps that all pools share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tarmac.api.declare import Time
from tarmac.api.egress.sourceip import ClaimReference, LastClaim, SourceIP, SourceIPStatus
from tarmac.base.clock import rfc3339
from tarmac.decide.egress.claims import holders, phase_of
from tarmac.decide.pooled.releasing import ReleasedAddress, ReleaseStep, next_release_step


@dataclass(frozen=True, slots=True)
class SourceIPRelease:
    """The next step for an address, and the delay until the next reconcile. All None: nothing to do."""

    status: SourceIPStatus | None = None
    claims: tuple[ClaimReference, ...] | None = None  # the holders from now on
    delete: bool = False
    unprotect: bool = False
    after: float | None = None


def next_step(
    address: SourceIP, alive: Sequence[ClaimReference], *, carried: bool, rest: float, now: float
) -> SourceIPRelease:
    """Return the next step. `alive` are the claims that still exist; `carried`: a Gateway still exists."""
    status = address.status or SourceIPStatus()
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
    return SourceIPRelease(_status(status, step, rest, now), step.claims, step.delete, step.unprotect, step.after)


def _status(
    status: SourceIPStatus, step: ReleaseStep[ClaimReference], rest: float, now: float
) -> SourceIPStatus | None:
    if step.phase is None:
        return None
    if step.released is not None:
        last = step.released
        was = LastClaim(last.namespace, last.name, last.uid, last.namespace_uid, Time(rfc3339(now)))
        return replace(status, phase=step.phase, last_claim=was)
    if step.rests:
        return replace(status, phase=step.phase, owner=None, quarantined_until=rfc3339(now + rest))
    return replace(status, phase=step.phase, quarantined_until=None)
