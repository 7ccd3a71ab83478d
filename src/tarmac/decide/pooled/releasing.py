"""Release of an address after its holder is gone: remove it from all gateways, let it rest, then free it.

Bound → Released → (every gateway silent) → Quarantined → deleted, or Available if it is retained. A retained address
stays Released until a manager removes its claimRef. The next step is computed from the object alone, so after a crash
between two steps the controller resumes with the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tarmac.base.clock import parse_rfc3339
from tarmac.base.duration import parse_duration

SILENCE_TIMEOUT = 10.0
"""Seconds from release until no gateway can own an address any more: several lease durations."""

_HOLD_DOWN = 24 * 3600.0


class _Reference(Protocol):
    @property
    def uid(self) -> str: ...


R = TypeVar("R", bound=_Reference)


@dataclass(frozen=True, slots=True)
class ReleasedAddress(Generic[R]):
    """An address and its holders. `released_at` and `until`: its release and the end of its rest, empty if unknown."""

    held: Sequence[R]
    phase: str
    retained: bool = False
    going: bool = False  # being deleted
    released_at: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseStep(Generic[R]):
    """The next step, and the delay until the next reconcile. All None: nothing to do."""

    phase: str | None = None
    released: R | None = None  # the holder to record as the last one
    rests: bool = False  # the rest begins now
    claims: tuple[R, ...] | None = None  # the holders from now on
    delete: bool = False
    unprotect: bool = False
    after: float | None = None


def hold_down(written: str) -> float:
    """Return the quarantine in seconds; one day if the duration is empty or invalid."""
    try:
        return max(0.0, parse_duration(written)) if written else _HOLD_DOWN
    except ValueError:
        return _HOLD_DOWN


def next_release_step(
    address: ReleasedAddress[R], alive: Sequence[R], *, carried: bool, rest: float, now: float
) -> ReleaseStep[R]:
    """Return the next step. `alive` are the holders that still exist; `carried`: a gateway may still have it."""
    held, phase = list(address.held), address.phase
    if any(not each.uid for each in held):
        return _as("Available", phase) if not address.going else ReleaseStep(unprotect=True)  # a reservation
    if alive:
        if list(alive) != held:
            return ReleaseStep(claims=tuple(alive))
        return _as("Bound", phase) if phase != "Conflict" else ReleaseStep()
    if held and phase not in ("Released", "Quarantined"):
        return ReleaseStep("Released", held[0], after=SILENCE_TIMEOUT)
    if phase == "Released":
        return _after_release(address, carried=carried, rest=rest, now=now)
    if phase == "Quarantined":
        return _resting(address, now)
    return ReleaseStep(unprotect=True) if address.going else _as("Available", phase)


def _as(phase: str, known: str) -> ReleaseStep[R]:
    return ReleaseStep() if phase == known else ReleaseStep(phase)


def _after_release(address: ReleasedAddress[R], *, carried: bool, rest: float, now: float) -> ReleaseStep[R]:
    if address.retained and address.held and not address.going:
        return ReleaseStep()
    silent = parse_rfc3339(address.released_at) + SILENCE_TIMEOUT if address.released_at else now
    if carried or now < silent:
        return ReleaseStep(after=max(1.0, silent - now))
    return ReleaseStep("Quarantined", rests=True, after=rest)


def _resting(address: ReleasedAddress[R], now: float) -> ReleaseStep[R]:
    if address.held:
        return ReleaseStep(claims=())
    until = parse_rfc3339(address.until) if address.until else now
    if now < until:
        return ReleaseStep(after=until - now)
    if address.going:
        return ReleaseStep(unprotect=True)
    return ReleaseStep("Available") if address.retained else ReleaseStep(delete=True)
