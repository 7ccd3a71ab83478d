"""Which revision each city should have now, so that a mistake reaches one city before it reaches all of them.

A new template is given to one city, then to two, then to four, and so on, in the order of the placements. A wave
begins when every city that has the newest revision has settled: it is complete, and the controller has observed it for
`minReadySeconds` without a restart of an instance. Nothing of this is stored: a city has begun when its deployment has
the newest template, and the next wave is one larger than the number of cities that are complete with it (after 1 come
2, after 3 come 4). A revision has proven itself when its last wave has settled too.

A template that proved itself before (an undo) goes at once to every city that is not complete, since none of them can
get worse; the other cities follow in waves.

A city fails when an instance of the newest template says for `START_PATIENCE` seconds that it cannot start, or when
nothing moves there for `progressDeadlineSeconds`. That stops the rollout for good: only another template begins a new
one. Unless `onFailure` is Hold, cities that have the failed revision then go back to the last one that was complete, as
many at a time as the wave had.

A failure is only reported at first, and the caller records it in the Workload's status; cities are taken back when it
is read from there. In the other order a controller that ended in between would lose the evidence, which goes with the
instances, and begin the same rollout again.

A city that is lost holds nobody up, and proves nothing. It keeps what it has and is updated when it is back.
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

START_PATIENCE: Final = 30.0


@dataclass(slots=True)
class Waves:
    """What each city should have now, what to say about it, and in how many seconds time alone changes it.

    `templates` has an entry for each deployment that should have a certain revision; the others keep what they have.
    A failure in `status` that was not known before has to be recorded before anything is taken back.
    """

    status: RolloutStatus
    templates: dict[str, Revision] = field(default_factory=dict[str, Revision])
    under_way: bool = False  # whether deployments have different revisions now
    waiting: tuple[str, ...] = ()  # cities that the newest revision has not reached
    settling: tuple[str, ...] = ()  # cities that the next wave waits for
    settled: bool = False  # whether every city that has the newest revision has been observed for long enough
    restored: Revision | None = None  # what cities go back to
    again: float | None = None


@dataclass(frozen=True, slots=True)
class RolloutFacts:
    """What the waves follow from. `history` ends with the newest template; `cities` are in the order of placements.

    `known` is what the Workload's status says of the rollout.
    """

    history: Sequence[Revision]
    cities: Sequence[WaveCity]
    settings: Rollout = field(default_factory=Rollout)
    known: RolloutStatus | None = None
    paused: bool = False

    @property
    def newest(self) -> Revision:
        """What every city should have in the end."""
        return self.history[-1]

    @property
    def fallback(self) -> Revision | None:
        """What cities go back to."""
        return fallback(self.history)

    @property
    def begun(self) -> list[WaveCity]:
        """Cities that have the newest revision."""
        return [city for city in self.cities if city.revision == self.newest.template_hash]


def waves(given: RolloutFacts, now: float) -> Waves:
    """What each city should have now."""
    total = len(given.cities)
    last = wave_of(total - 1, given.settings) if total else 0
    result = Waves(RolloutStatus(revision=given.newest.number, wave=0, waves=last, cities=total))
    known = _recorded(given)
    failure = known or _failure(given, now)
    if given.newest.completed is not None:  # it has proven itself; who comes back or is new gets it at once
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
    """In which wave the city at this position, counted from 0, has its turn; waves count from 1."""
    return 1 if settings.waves == "AllAtOnce" else (position + 1).bit_length()


def waves_to_come(given: RolloutFacts) -> dict[str, int]:
    """In which wave each deployment that has an older revision is to be updated, if all goes well."""
    begun = len(given.begun)
    return {city.name: wave_of(begun + place, given.settings) for place, city in enumerate(turns(given))}


def turns(given: RolloutFacts) -> list[WaveCity]:
    """Cities that exist without the newest revision, in the order in which they have their turn.

    First those that hang in a revision that was never complete: they are away already, so taking one of them takes no
    other city away. Those that are lost have none.
    """
    finished = {revision.template_hash for revision in given.history if revision.completed is not None}
    left = [city for city in given.cities if city.revision not in {"", given.newest.template_hash} and not city.lost]
    return sorted(left, key=lambda city: city.complete or city.revision in finished)


def _count(result: Waves, given: RolloutFacts) -> None:
    """How far the newest revision will have come with this step."""
    newest = given.newest.template_hash
    ahead = {name: revision.template_hash for name, revision in result.templates.items()}
    reached = {city.name for city in given.cities if ahead.get(city.name, city.revision) == newest}
    result.under_way = any(city.revision not in {"", newest} for city in given.cities)
    result.waiting = _names(city for city in given.cities if city.name not in reached)
    result.status.updated_cities = len(reached)
    if result.restored is None and reached:
        result.status.wave = wave_of(len(reached) - 1, given.settings)


def _recorded(given: RolloutFacts) -> RolloutFailure | None:
    """The failure that is known of the newest revision.

    Where nothing is taken back, what failed may mend itself: then it is as if it had not been.
    """
    known = given.known
    if known is None or known.revision != given.newest.number:
        return None
    stays = given.settings.on_failure == "Hold"
    return None if stays and all(city.complete for city in given.begun) else known.failure


def _shared(given: RolloutFacts) -> Revision:
    """What a city that is made only now begins with: what the others had before, while those wait for their turn."""
    others_wait = any(city.revision not in {"", given.newest.template_hash} for city in given.cities)
    joins = others_wait and given.settings.waves != "AllAtOnce"
    return given.fallback or given.newest if joins else given.newest


def _begin_with(result: Waves, given: RolloutFacts, revision: Revision) -> None:
    result.templates.update((city.name, revision) for city in given.cities if not city.revision)


def _advance(result: Waves, given: RolloutFacts) -> None:
    """Give the newest revision to the next cities, if it is time; else say when to look again."""
    settings, next_cities, present = given.settings, turns(given), _present(given)
    unsettled = [city for city in present if _settles_in(city, settings) > 0]
    moments = [_fails_in(city, settings) for city in present if not city.complete]
    moments += [_settles_in(city, settings) for city in unsettled]
    broken = [city for city in next_cities if not city.complete] if _was_proven(given) else []
    if settings.waves != "AllAtOnce" and next_cities:
        result.settling = _names(unsettled)
        next_cities = [] if unsettled else next_cities[: len(present) + 1]
    result.templates.update((city.name, given.newest) for city in (*broken, *next_cities))
    # What lies in the past is decided already: waking up for it would be waking up for ever.
    result.again = min((moment for moment in moments if 0 < moment < inf), default=None)


def _present(given: RolloutFacts) -> list[WaveCity]:
    """Cities that have the newest revision and are not lost."""
    return [city for city in given.begun if not city.lost]


def _was_proven(given: RolloutFacts) -> bool:
    """Whether the newest template equals one that was complete everywhere before."""
    newest = given.newest.template_hash
    return any(each.completed is not None and each.template_hash == newest for each in given.history[:-1])


def _settles_in(city: WaveCity, settings: Rollout) -> float:
    """Seconds until the city has been observed for long enough; for ever when it is not complete."""
    return settings.min_ready_seconds - city.stable if city.complete else inf


def _fails_in(city: WaveCity, settings: Rollout) -> float:
    """Seconds until a city that is not complete has failed, unless something happens."""
    patience = START_PATIENCE - city.failing if city.start_failure is not None else inf
    return min(settings.progress_deadline_seconds - city.still, patience)


def _failure(given: RolloutFacts, now: float) -> RolloutFailure | None:
    """The first city that has failed. The first revision of all replaces nothing, so it cannot fail anybody."""
    if given.paused or given.fallback is None or given.newest.completed is not None:
        return None
    for city in given.begun:
        if city.lost or city.complete:
            continue
        cannot = city.start_failure
        if cannot is not None and city.failing >= START_PATIENCE:
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
    """Cities that are not complete go back at once, the others as many at a time as the wave had cities."""
    assert given.known is not None
    result.status.wave = given.known.wave  # where it was stopped, whatever has been taken back since
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
