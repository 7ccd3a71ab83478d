"""Computes the revision each city should have now, so that a bad template reaches one city before all of them.

A new template goes to one city, then to two, then to four, and so on, in the order of the placements. A wave begins
when every city with the newest revision has settled: it is complete, and the controller has observed it for
`minReadySeconds` without a restart of an instance. None of this is stored: a city has begun when its deployment has the
newest template, and the next wave is one larger than the number of cities that are complete with it (after 1 come 2,
after 3 come 4). A revision is proven when its last wave has settled too.

A city in which an instance has restarted settles only after `RESTART_WINDOW` seconds without another restart, the
longest delay before a restart. It is not excluded for good: at a thousand cities one accidental exit, one reboot of a
node or one virtual machine that reboots to install itself would fail every rollout.

A template that was proven before (an undo) goes at once to every city that is not complete, since none of them can get
worse; the remaining cities follow in waves.

A city fails when an instance of the newest template has reported for `START_TIMEOUT` seconds that it cannot start, or
when the city makes no progress for `progressDeadlineSeconds`. A failure stops the rollout permanently: only a different
template begins a new one. Unless `onFailure` is Hold, cities with the failed revision then return to the last complete
revision, as many at a time as the wave had.

Order matters: a new failure is only reported, the caller records it in the Workload's status, and cities are rolled
back once it is read from there. In the reverse order, a controller that crashed in between would lose the evidence,
which is deleted with the instances, and start the same rollout again.

A lost city neither delays a wave nor proves a revision. It keeps its revision and is updated when it is back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from tarmac.api.compute.workload import Rollout, RolloutFailure, RolloutStatus
from tarmac.api.declare import Time
from tarmac.base.clock import rfc3339
from tarmac.base.duration import human_duration
from tarmac.decide import reasons
from tarmac.decide.rollout.city import WaveCity
from tarmac.decide.rollout.history import Revision, fallback

START_TIMEOUT: Final = 30.0
RESTART_WINDOW: Final = 300.0


@dataclass(slots=True)
class Waves:
    """The revision each city should have now, the rollout status, and the seconds until time alone changes either.

    `templates` has an entry for each deployment that should have a certain revision; all other deployments stay
    unchanged. A failure in `status` that is new must be recorded before any city is rolled back.
    """

    status: RolloutStatus
    templates: dict[str, Revision] = field(default_factory=dict[str, Revision])
    under_way: bool = False  # deployments have different revisions now
    changing: bool = False  # an existing deployment is given a different revision
    watching: bool = False  # the completeness and start failures of cities matter
    waiting: tuple[str, ...] = ()  # cities that the newest revision has not reached
    settling: tuple[str, ...] = ()  # cities that the next wave waits for
    restarted: tuple[str, ...] = ()  # those of them in which an instance has restarted
    settled: bool = False  # every city with the newest revision has been observed for long enough
    restored: Revision | None = None  # the revision that cities are rolled back to
    again: float | None = None


@dataclass(frozen=True, slots=True)
class RolloutFacts:
    """Input of the waves. `history` ends with the newest template; `cities` are in the order of placements.

    `known` is the rollout in the Workload's status.
    """

    history: Sequence[Revision]
    cities: Sequence[WaveCity]
    settings: Rollout = field(default_factory=Rollout)
    known: RolloutStatus | None = None
    paused: bool = False

    @property
    def newest(self) -> Revision:
        """The revision that every city gets in the end."""
        return self.history[-1]

    @property
    def fallback(self) -> Revision | None:
        """The revision that cities are rolled back to."""
        return fallback(self.history)

    @property
    def begun(self) -> list[WaveCity]:
        """Cities that have the newest revision."""
        return [city for city in self.cities if city.revision == self.newest.template_hash]


def waves(given: RolloutFacts, now: float) -> Waves:
    """Compute the revision each city should have now."""
    total = len(given.cities)
    last = wave_of(total - 1, given.settings) if total else 0
    result = Waves(RolloutStatus(revision=given.newest.number, wave=0, waves=last, cities=total))
    known = _recorded(given)
    failure = known or _failure(given, now)
    if given.newest.completed is not None:  # proven: returning and new cities get it at once
        result.templates.update((city.name, given.newest) for city in given.cities)
    elif failure is not None:
        result.status.failure = failure
        _begin_with(result, given, given.fallback or given.newest)
        if known is not None:
            _take_back(result, given)
    else:
        _begin_with(result, given, _shared(given))
        if not given.paused:
            _advance(result, given)
    result.settled = given.fallback is None or all(_settles_in(each, given.settings) <= 0 for each in _present(given))
    _count(result, given)
    return result


def wave_of(position: int, settings: Rollout) -> int:
    """Return the wave, counted from 1, in which the city at this position, counted from 0, is updated."""
    return 1 if settings.waves == "AllAtOnce" else (position + 1).bit_length()


def waves_to_come(given: RolloutFacts) -> dict[str, int]:
    """Return the wave in which each deployment with an older revision is updated, provided that no city fails."""
    begun = len(given.begun)
    return {city.name: wave_of(begun + place, given.settings) for place, city in enumerate(turns(given))}


def turns(given: RolloutFacts) -> list[WaveCity]:
    """Return the existing cities without the newest revision, in the order in which they are updated.

    Cities stuck in a revision that was never complete come first: they are unavailable already, so updating them takes
    no further city down. Lost cities are left out.
    """
    finished = {revision.template_hash for revision in given.history if revision.completed is not None}
    left = [city for city in given.cities if city.revision not in {"", given.newest.template_hash} and not city.lost]
    return sorted(left, key=lambda city: city.complete or city.revision in finished)


def _count(result: Waves, given: RolloutFacts) -> None:
    """Compute the counts and flags as they will be once this step is applied."""
    newest = given.newest.template_hash
    ahead = {name: revision.template_hash for name, revision in result.templates.items()}
    reached = {city.name for city in given.cities if ahead.get(city.name, city.revision) == newest}
    result.under_way = any(city.revision not in {"", newest} for city in given.cities)
    result.changing = any(city.revision not in {"", ahead.get(city.name, city.revision)} for city in given.cities)
    result.watching = given.newest.completed is None and (given.fallback is not None or result.under_way)
    result.waiting = _names(city for city in given.cities if city.name not in reached)
    result.status.updated_cities = len(reached)
    if result.restored is None and reached:
        result.status.wave = wave_of(len(reached) - 1, given.settings)


def _recorded(given: RolloutFacts) -> RolloutFailure | None:
    """Return the recorded failure of the newest revision.

    With Hold nothing is rolled back, so failed cities may recover; once all are complete, the failure is dropped.
    """
    known = given.known
    if known is None or known.revision != given.newest.number:
        return None
    stays = given.settings.on_failure == "Hold"
    return None if stays and all(city.complete for city in given.begun) else known.failure


def _shared(given: RolloutFacts) -> Revision:
    """Return the first revision of a newly created city: the previous one while other cities still await their wave."""
    others_wait = any(city.revision not in {"", given.newest.template_hash} for city in given.cities)
    joins = others_wait and given.settings.waves != "AllAtOnce"
    return given.fallback or given.newest if joins else given.newest


def _begin_with(result: Waves, given: RolloutFacts, revision: Revision) -> None:
    result.templates.update((city.name, revision) for city in given.cities if not city.revision)


def _advance(result: Waves, given: RolloutFacts) -> None:
    """Give the newest revision to the next cities if they are due; else set the time of the next check."""
    settings, next_cities, present = given.settings, turns(given), _present(given)
    unsettled = [city for city in present if _settles_in(city, settings) > 0]
    moments = [_fails_in(city, settings) for city in present if not city.complete]
    moments += [_settles_in(city, settings) for city in unsettled]
    broken = [city for city in next_cities if not city.complete] if _was_proven(given) else []
    if settings.waves != "AllAtOnce" and next_cities:
        result.settling = _names(unsettled)
        result.restarted = _names(city for city in unsettled if city.complete and city.restarted)
        next_cities = [] if unsettled else next_cities[: len(present) + 1]
    result.templates.update((city.name, given.newest) for city in (*broken, *next_cities))
    # Drop times in the past: they are decided already, and waking for them would loop forever.
    result.again = min((moment for moment in moments if 0 < moment < inf), default=None)


def _present(given: RolloutFacts) -> list[WaveCity]:
    """Cities that have the newest revision and are not lost."""
    return [city for city in given.begun if not city.lost]


def _was_proven(given: RolloutFacts) -> bool:
    """Return True if the newest template equals one that was complete everywhere before."""
    newest = given.newest.template_hash
    return any(each.completed is not None and each.template_hash == newest for each in given.history[:-1])


def _settles_in(city: WaveCity, settings: Rollout) -> float:
    """Return the seconds until the city has been observed for long enough; infinite while it is not complete."""
    return observation_window(settings, restarted=city.restarted) - city.stable if city.complete else inf


def observation_window(settings: Rollout, *, restarted: bool) -> float:
    """Return the seconds without a restart after which a complete city has settled."""
    return max(settings.min_ready_seconds, RESTART_WINDOW) if restarted else settings.min_ready_seconds


def _fails_in(city: WaveCity, settings: Rollout) -> float:
    """Return the seconds until an incomplete city without progress has failed."""
    patience = START_TIMEOUT - city.failing if city.start_failure is not None else inf
    return min(settings.progress_deadline_seconds - city.still, patience)


def _failure(given: RolloutFacts, now: float) -> RolloutFailure | None:
    """Return the failure of the first failed city.

    The very first revision cannot fail: there is nothing to roll back to.
    """
    if given.paused or given.fallback is None or given.newest.completed is not None:
        return None
    for city in given.begun:
        if city.lost or city.complete:
            continue
        cannot = city.start_failure
        if cannot is not None and city.failing >= START_TIMEOUT:
            return _failed(city, now, cannot.reason, cannot.message, cannot.instance)
        if city.still >= given.settings.progress_deadline_seconds:
            message = f"no progress for {human_duration(city.still)}: {city.detail}"
            return _failed(city, now, city.trouble or reasons.STALLED, message)
    return None


def _failed(city: WaveCity, now: float, reason: str, message: str, instance: str = "") -> RolloutFailure:
    return RolloutFailure(
        city=city.city, deployment=city.name, instance=instance, reason=reason, message=message, time=Time(rfc3339(now))
    )


def _take_back(result: Waves, given: RolloutFacts) -> None:
    """Roll back incomplete cities at once, and complete ones as many at a time as the wave had cities."""
    assert given.known is not None
    result.status.wave = given.known.wave  # the wave that failed, also while cities are being rolled back
    if given.settings.on_failure == "Hold" or given.fallback is None or given.paused:
        return
    result.restored = given.fallback
    width = len(given.cities) if given.settings.waves == "AllAtOnce" else 2 ** max(given.known.wave - 1, 0)
    room = width - sum(not city.complete and not city.lost for city in given.cities)
    for city in given.begun:
        takes_away = city.complete and not city.lost
        if takes_away and room <= 0:
            continue
        room -= takes_away
        result.templates[city.name] = given.fallback


def _names(cities: Iterable[WaveCity]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(city.city for city in cities))
