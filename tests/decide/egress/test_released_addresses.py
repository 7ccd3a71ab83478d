"""A released address goes silent, rests, and is free again; an interrupted release continues."""

from __future__ import annotations

from typing import Any

from tarmac.api.egress.sourceip import SourceIP
from tarmac.base.clock import parse_rfc3339
from tarmac.decide.egress.claims import holders
from tarmac.decide.egress.releasing import SourceIPRelease, next_step
from tarmac.decide.pooled.releasing import hold_down
from tests.decide.egress.making import claim, source_ip

NOW = parse_rfc3339("2026-11-16T12:00:00Z")
LAST = {"namespace": "team", "name": "c", "uid": "u", "releasedAt": "2026-11-16T11:59:00Z"}


def step(
    address: SourceIP, *, alive: bool = False, carried: bool = False, rest: float = 60.0, now: float = NOW
) -> SourceIPRelease:
    return next_step(address, holders(address) if alive else [], carried=carried, rest=rest, now=now)


def held(**more: Any) -> SourceIP:
    return source_ip("192.0.2.5", claim(), **more)


def test_a_held_address_is_bound_and_stays_so() -> None:
    assert step(held(status={}), alive=True).status.phase == "Bound"  # type: ignore[union-attr]
    assert step(held(), alive=True) == SourceIPRelease()
    resting = held(status={"phase": "Quarantined", "quarantinedUntil": "2026-11-17T12:00:00Z"})
    again = step(resting, alive=True).status
    assert again is not None, "the last claim regains it"
    assert (again.phase, again.quarantined_until) == ("Bound", None)


def test_without_its_claim_it_is_released_and_remembers_whose_it_was() -> None:
    made = step(held()).status
    assert made is not None
    assert made.last_claim is not None
    assert (made.phase, made.id, made.last_claim.name, made.last_claim.released_at) == (
        ("Released", 7, "c", "2026-11-16T12:00:00Z")
    )


def test_it_rests_only_when_nobody_can_carry_it_any_more() -> None:
    released = held(status={"phase": "Released", "lastClaim": LAST})
    assert step(released, now=NOW - 55) == SourceIPRelease(after=5.0)
    assert step(released, carried=True).status is None
    resting = step(released).status
    assert resting is not None
    assert (resting.phase, resting.quarantined_until) == ("Quarantined", "2026-11-16T12:01:00Z")


def test_it_lets_go_of_its_claim_rests_and_goes() -> None:
    status = {"phase": "Quarantined", "quarantinedUntil": "2026-11-16T12:00:30Z", "lastClaim": LAST}
    assert step(held(status=status)) == SourceIPRelease(claims=())
    resting = source_ip("192.0.2.5", status=status)
    assert step(resting) == SourceIPRelease(after=30.0)
    assert step(resting, now=NOW + 31) == SourceIPRelease(delete=True)


def test_a_retained_one_waits_for_a_manager_and_is_available_after_its_rest() -> None:
    assert step(held(status={"phase": "Released", "lastClaim": LAST}, reclaimPolicy="Retain")) == SourceIPRelease()
    freed = source_ip("192.0.2.5", status={"phase": "Released", "lastClaim": LAST}, reclaimPolicy="Retain")
    assert step(freed).status.phase == "Quarantined"  # type: ignore[union-attr]
    status = {"phase": "Quarantined", "quarantinedUntil": "2026-11-16T11:00:00Z"}
    rested = source_ip("192.0.2.5", status=status, reclaimPolicy="Retain")
    assert step(rested).status.phase == "Available"  # type: ignore[union-attr]


def test_when_the_first_of_several_claims_goes_the_next_takes_its_place() -> None:
    other = {"namespace": "shop", "name": "d", "uid": "v"}
    shared = source_ip("192.0.2.5", claim(), sharedBy=[other])
    alive = holders(shared)[1:]
    assert next_step(shared, alive, carried=False, rest=60, now=NOW) == SourceIPRelease(claims=tuple(alive))


def test_one_that_a_manager_made_is_available_and_one_set_aside_waits() -> None:
    assert step(source_ip("192.0.2.5")).status.phase == "Available"  # type: ignore[union-attr]
    aside = source_ip("192.0.2.5", claimRef={"namespace": "team", "name": "c"}, status={"phase": "Available"})
    assert step(aside) == SourceIPRelease()


def test_a_time_that_cannot_be_read_is_a_day() -> None:
    assert (hold_down("1h"), hold_down("soon"), hold_down("")) == (3600, 86400, 86400)
