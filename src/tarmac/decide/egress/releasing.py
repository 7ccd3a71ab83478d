"""Release of an address after its claim is deleted: remove it from all gateways, quarantine it, then free it.

Bound → Released → (every gateway silent) → Quarantined → deleted, or Available if it is retained. A retained address
stays Released until a manager removes its claimRef. The next step is computed from the object alone, so after a crash
between two steps the controller resumes with the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tarmac.api.declare import Time
from tarmac.api.egress.sourceip import ClaimReference, LastClaim, SourceIP, SourceIPStatus
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.base.duration import parse_duration
from tarmac.decide.egress.claims import holders, phase_of

SILENCE_TIMEOUT = 10.0
"""Seconds from release until no gateway can own an address any more: several lease durations."""

_HOLD_DOWN = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Step:
    """The next step for an address, and the delay until the next reconcile. All None: nothing to do."""

    status: SourceIPStatus | None = None
    claims: tuple[ClaimReference, ...] | None = None  # the holders from now on
    delete: bool = False
    unprotect: bool = False
    after: float | None = None


def hold_down(written: str) -> float:
    """Return the quarantine in seconds; one day if the duration is empty or invalid."""
    try:
        return max(0.0, parse_duration(written)) if written else _HOLD_DOWN
    except ValueError:
        return _HOLD_DOWN


def next_step(address: SourceIP, alive: Sequence[ClaimReference], *, carried: bool, rest: float, now: float) -> Step:
    """Return the next step. `alive` are the claims that still exist; `carried`: a Gateway still exists."""
    held, going = holders(address), address.metadata.deletion_timestamp is not None
    phase, status = phase_of(address), address.status or SourceIPStatus()
    if any(not each.uid for each in held):
        return _as("Available", status, phase) if not going else Step(unprotect=True)  # reserved for a future claim
    if alive:
        if list(alive) != held:
            return Step(claims=tuple(alive))
        return _as("Bound", status, phase) if phase != "Conflict" else Step()
    if held and phase not in ("Released", "Quarantined"):
        return Step(_released(status, held[0], now), after=SILENCE_TIMEOUT)
    if phase == "Released":
        return _after_release(address, status, held, carried=carried, rest=rest, now=now)
    if phase == "Quarantined":
        return _resting(address, status, held, going=going, now=now)
    return Step(unprotect=True) if going else _as("Available", status, phase)


def _as(phase: str, status: SourceIPStatus, known: str) -> Step:
    return Step() if phase == known else Step(replace(status, phase=phase, quarantined_until=None))


def _released(status: SourceIPStatus, last: ClaimReference, now: float) -> SourceIPStatus:
    was = LastClaim(last.namespace, last.name, last.uid, last.namespace_uid, Time(rfc3339(now)))
    return replace(status, phase="Released", last_claim=was)


def _after_release(
    address: SourceIP, status: SourceIPStatus, held: list[ClaimReference], *, carried: bool, rest: float, now: float
) -> Step:
    kept = address.spec.reclaim_policy == "Retain" and held and address.metadata.deletion_timestamp is None
    if kept:
        return Step()
    since = status.last_claim.released_at if status.last_claim is not None else None
    silent = parse_rfc3339(since) + SILENCE_TIMEOUT if since else now
    if carried or now < silent:
        return Step(after=max(1.0, silent - now))
    until = rfc3339(now + rest)
    return Step(replace(status, phase="Quarantined", owner=None, quarantined_until=until), after=rest)


def _resting(address: SourceIP, status: SourceIPStatus, held: list[ClaimReference], *, going: bool, now: float) -> Step:
    if held:
        return Step(claims=())
    until = parse_rfc3339(status.quarantined_until) if status.quarantined_until else now
    if now < until:
        return Step(after=until - now)
    if going:
        return Step(unprotect=True)
    retained = address.spec.reclaim_policy == "Retain"
    return Step(replace(status, phase="Available", quarantined_until=None)) if retained else Step(delete=True)
