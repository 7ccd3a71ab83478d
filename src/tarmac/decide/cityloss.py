"""Handling of the instances of a lost city: they stay, or as many start elsewhere, step by step.

A city is lost when none of its Locations is ready. It always keeps its own deployment, so its instances return with it;
a move only adds instances in the fallback cities of the placement. The number that may have moved grows with the time
since the loss, and shrinks with the time since the return, by the same steps; so a controller that restarts, or runs
late, decides the same. Moved instances stay where they are, and further ones are distributed by the free room of each
city, so that many workloads losing the same city do not all move to the first one on their lists.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tarmac.api.compute.workload import OnCityLoss
from tarmac.base.duration import format_duration, parse_duration
from tarmac.decide import reasons
from tarmac.decide.placement import LocationView
from tarmac.decide.verdict import Refusal, Verdict

DEFAULT_AFTER = 300.0
STEP_SECONDS = 30.0
STEPS = 4  # a quarter of the city's instances at a time


@dataclass(frozen=True, slots=True)
class Loss:
    """A city of the placement. `lost_since` is None while it is healthy; `healthy_since` is None while it is lost."""

    city: str
    wanted: int
    lost_since: float | None = None
    healthy_since: float | None = None
    standing: Mapping[str, int] = field(default_factory=dict[str, int])  # moved instances by city


def loss_of(city: str, wanted: int, places: Collection[LocationView], standing: Mapping[str, int]) -> Loss:
    """Return the state of a city from its Locations. A city without any Location is not lost: it never existed."""
    here = [place for place in places if place.city == city]
    ready = [place.since for place in here if place.ready]
    lost = max(place.since for place in here) if here and not ready else None
    return Loss(city, wanted, lost, min(ready) if ready else None, standing)


def moves(policy: OnCityLoss | None, loss: Loss, rooms: Mapping[str, int], now: float) -> Verdict[dict[str, int]]:
    """Return the number of extra instances each city should run now in place of this one's.

    `rooms` is the number of further instances each ready city can take, minus those claimed by other moves. Refusals
    beside the value name the instances that still wait, and the cause.
    """
    wanted, reason = _allowed(policy, loss, now)
    standing = {city: count for city, count in loss.standing.items() if count > 0}
    have = sum(standing.values())
    if wanted <= have:
        return Verdict(_give_back(standing, have - wanted), reason)
    cities = [city for city in (policy.cities if policy else ()) if city in rooms and city != loss.city]
    shares = share_out(wanted - have, [(city, rooms[city]) for city in cities])
    target = {city: count for city in cities if (count := standing.get(city, 0) + shares.get(city, 0))}
    target = {**standing, **target}
    unplaced = wanted - sum(target.values())
    return Verdict(target, (*reason, *_unplaced(policy, loss, cities, unplaced)))


def next_step(policy: OnCityLoss | None, loss: Loss, now: float) -> float | None:
    """Return the seconds until time alone lets more instances leave or return; None: never."""
    returning = loss.lost_since is None
    since = loss.healthy_since if returning else loss.lost_since
    if policy is None or policy.policy == "Stay" or since is None or (returning and not any(loss.standing.values())):
        return None
    elapsed = now - since - _patience(policy)
    if elapsed < 0:
        return -elapsed
    return STEP_SECONDS - elapsed % STEP_SECONDS if _stepped(loss.wanted, elapsed) < loss.wanted else None


def share_out(count: int, rooms: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Distribute `count` in proportion to room, never beyond it.

    The rest goes to the largest remainders, then in order. Instances that fit nowhere are left out, without an error.
    """
    total = sum(room for _, room in rooms)
    count = min(count, total)
    if count <= 0:
        return {}
    shares = {city: count * room // total for city, room in rooms}
    by_remainder = sorted(rooms, key=lambda entry: -(count * entry[1] % total))
    for city, _ in by_remainder[: count - sum(shares.values())]:
        shares[city] += 1
    return {city: share for city, share in shares.items() if share}


def _allowed(policy: OnCityLoss | None, loss: Loss, now: float) -> tuple[int, tuple[Refusal, ...]]:
    """Return the number of instances that may be elsewhere now, and the reasons why not more."""
    if policy is None or policy.policy == "Stay":
        return 0, (_staying(loss),) if loss.lost_since is not None else ()
    after = _patience(policy)
    if loss.lost_since is not None:
        return _leaving(loss, loss.lost_since + after, now)
    standing = sum(loss.standing.values())
    if loss.healthy_since is None or now < loss.healthy_since + after:
        return standing, ()  # without a Location, or back for too short a time
    return min(standing, loss.wanted - _stepped(loss.wanted, now - loss.healthy_since - after)), ()


def _patience(policy: OnCityLoss) -> float:
    return parse_duration(policy.after) if policy.after else DEFAULT_AFTER


def _leaving(loss: Loss, begins: float, now: float) -> tuple[int, tuple[Refusal, ...]]:
    standing = sum(loss.standing.values())
    if now < begins:
        message = f"{loss.city} is lost; its instances move in {format_duration(round(begins - now))}."
        refusal = Refusal(reasons.CITY_LOST, message, loss.city, "onCityLoss", "Lower onCityLoss.after to move sooner.")
        return standing, (refusal,)
    stepped = max(standing, _stepped(loss.wanted, now - begins))
    if stepped >= loss.wanted:
        return loss.wanted, ()
    message = f"{stepped} of {loss.wanted} instances of {loss.city} may have moved by now."
    return stepped, (Refusal(reasons.MOVE_RATE_LIMITED, message, loss.city, "onCityLoss"),)


def _stepped(wanted: int, elapsed: float) -> int:
    """Return how many of `wanted` may have moved after so many seconds."""
    step = -(-wanted // STEPS)
    return min(wanted, step * (1 + int(max(0.0, elapsed) // STEP_SECONDS)))


def _give_back(standing: Mapping[str, int], surplus: int) -> dict[str, int]:
    """Return the instances left after removing `surplus`, one by one from the city with the most: load stays even."""
    left = dict(standing)
    for _ in range(surplus):
        fullest = max(left, key=lambda city: (left[city], city))
        left[fullest] -= 1
    return {city: count for city, count in left.items() if count}


def _staying(loss: Loss) -> Refusal:
    message = f"{loss.city} is lost; its instances wait for it."
    change = "Set onCityLoss.policy to Move and name cities to start the instances elsewhere."
    return Refusal(reasons.CITY_LOST, message, loss.city, "onCityLoss", change)


def _unplaced(policy: OnCityLoss | None, loss: Loss, ready: Sequence[str], count: int) -> tuple[Refusal, ...]:
    if not count:
        return ()
    named = ", ".join(policy.cities) if policy else ""
    if not ready:
        message = f"None of the cities to move {loss.city} to ({named}) is ready."
        change = "Name a city that is ready in onCityLoss.cities."
        return (Refusal(reasons.NO_FALLBACK_CITY, message, loss.city, "onCityLoss", change),)
    message = f"{', '.join(ready)} have no room for {count} more instances of {loss.city}."
    change = "Add nodes there, or name another city in onCityLoss.cities."
    return (Refusal(reasons.INSUFFICIENT_CAPACITY, message, loss.city, "onCityLoss", change),)
