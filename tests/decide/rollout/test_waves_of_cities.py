"""A new template reaches one city, then two, then four; a failed one stops and is reverted."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.compute.workload import Rollout, RolloutStatus, StartFailure
from tarmac.api.declare import Time
from tarmac.base.clock import rfc3339
from tarmac.decide import reasons
from tarmac.decide.derived.goal import WorkloadGoal
from tarmac.decide.rollout.city import WaveCity
from tarmac.decide.rollout.history import Revision
from tarmac.decide.rollout.wavemessages import wave_progress
from tarmac.decide.rollout.waves import RolloutFacts, Waves, waves, waves_to_come

NOW = 1_000_000.0
LONG_AGO = NOW - 3600
CITIES = ("AMS", "BOM", "CDG", "DFW", "EZE", "FRA", "GRU")
SPEC = {"runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}}, "networkInterfaces": []}


def revision(number: int, *, complete: bool = True) -> Revision:
    return Revision(number, f"r{number}", LONG_AGO, LONG_AGO if complete else None)


HISTORY = (revision(1), revision(2, complete=False))


def city(code: str, has: str = "r1", since: float | None = LONG_AGO, **more: object) -> WaveCity:
    """Return a city that has been complete, and observed so, since a time; with None, it is not complete."""
    observed = {"complete": since is not None, "stable": 0 if since is None else NOW - since}
    return msgspec.convert({"name": f"web-{code.lower()}", "city": code, "revision": has} | observed | more, WaveCity)


def planet(**states: WaveCity) -> list[WaveCity]:
    """Return seven cities at the first revision, with these exceptions."""
    return [states.get(code, city(code)) for code in CITIES]


def updated(result: Waves, number: int = 2) -> list[str]:
    return [name.removeprefix("web-").upper() for name, each in result.templates.items() if each.number == number]


def look(cities: list[WaveCity], **more: object) -> Waves:
    facts = RolloutFacts(HISTORY, cities)
    return waves(replace(facts, **more), NOW)  # pyright: ignore[reportArgumentType]


def test_the_first_wave_is_one_city() -> None:
    result = look(planet())
    assert updated(result) == ["AMS"]
    assert (result.status.wave, result.status.waves, result.status.updated_cities) == (1, 3, 1)
    assert result.waiting == CITIES[1:]


def test_waves_double_when_every_city_has_stayed_ready() -> None:
    one = planet(AMS=city("AMS", "r2"))
    assert updated(look(one)) == ["BOM", "CDG"]
    three = planet(**{code: city(code, "r2") for code in CITIES[:3]})
    assert updated(look(three)) == ["DFW", "EZE", "FRA", "GRU"]


def test_a_wave_waits_until_the_last_one_has_stayed_ready() -> None:
    fresh = look(planet(AMS=city("AMS", "r2", since=NOW - 2)))
    assert (updated(fresh), fresh.settling, fresh.again) == ([], ("AMS",), 8.0)
    unready = look(planet(AMS=city("AMS", "r2", since=None)))
    assert (updated(unready), unready.settling, unready.again) == ([], ("AMS",), 600.0)
    patient = look(planet(AMS=city("AMS", "r2", since=NOW - 20)), settings=Rollout(min_ready_seconds=30))
    assert (updated(patient), patient.again) == ([], 10.0)


def test_a_city_with_a_restart_is_observed_for_five_minutes() -> None:
    """One restart is no failure, but no proof either."""
    exited = look(planet(AMS=city("AMS", "r2", since=NOW - 20, restarted=True)))
    assert (updated(exited), exited.restarted, exited.again) == ([], ("AMS",), 280.0)
    progress = wave_progress(exited)
    assert progress is not None
    assert progress.message.endswith("when AMS has stayed ready; AMS for 5m, since an instance has restarted")
    quiet = look(planet(AMS=city("AMS", "r2", since=NOW - 300, restarted=True)))
    assert (updated(quiet), quiet.restarted) == (["BOM", "CDG"], ())
    patient = look(
        planet(AMS=city("AMS", "r2", since=NOW - 300, restarted=True)), settings=Rollout(min_ready_seconds=900)
    )
    assert (updated(patient), patient.again) == ([], 600.0)


def test_a_revision_has_settled_when_its_last_wave_has_been_observed_too() -> None:
    everywhere = {code: city(code, "r2") for code in CITIES}
    assert look(planet(**everywhere)).settled
    fresh = look(planet(**{**everywhere, "GRU": city("GRU", "r2", since=NOW - 4)}))
    assert (fresh.settled, fresh.again) == (False, 6.0)
    exited = look(planet(**{**everywhere, "GRU": city("GRU", "r2", since=NOW - 20, restarted=True)}))
    assert (exited.settled, exited.again) == (False, 280.0)
    assert waves(RolloutFacts(HISTORY[:1], planet(AMS=city("AMS", "r1", since=NOW))), NOW).settled, "the first revision"


def test_an_undo_to_a_template_that_was_complete_goes_to_all_broken_cities_at_once() -> None:
    """None of them can get worse; the complete cities follow in waves."""
    history = (*HISTORY, replace(revision(3, complete=False), template_hash="r1"))
    broken = {code: city(code, "r2", since=None) for code in CITIES[:4]}
    rest = {code: city(code, "r2") for code in CITIES[4:]}
    assert updated(waves(RolloutFacts(history, planet(**broken, **rest)), NOW), 3) == list(CITIES[:4])
    untried = (*HISTORY, revision(3, complete=False))
    assert updated(waves(RolloutFacts(untried, planet(**broken, **rest)), NOW), 3) == ["AMS"]


def test_all_at_once_is_one_wave() -> None:
    result = look(planet(), settings=Rollout(waves="AllAtOnce"))
    assert updated(result) == list(CITIES)
    assert (result.status.wave, result.status.waves) == (1, 1)


def test_the_first_revision_goes_everywhere_at_once() -> None:
    """There is nothing to lose."""
    made = [WaveCity(name=f"web-{code.lower()}", city=code) for code in CITIES]
    result = waves(RolloutFacts((revision(1, complete=False),), made), NOW)
    assert updated(result, 1) == list(CITIES)


def test_a_revision_that_was_complete_goes_everywhere_at_once() -> None:
    """A new city, or one that returns, gets the revision of the other cities, whatever their state."""
    cities = [*planet(AMS=city("AMS", "r1")), WaveCity(name="web-sea", city="SEA")]
    cities[1] = city("BOM", "r2", since=None)
    result = waves(RolloutFacts((revision(1), revision(2)), cities), NOW)
    assert {"AMS", "SEA"} <= set(updated(result))


def test_a_city_that_is_made_during_a_rollout_begins_with_what_the_others_had() -> None:
    result = look([*planet(AMS=city("AMS", "r2", since=None)), WaveCity(name="web-sea", city="SEA")])
    assert updated(result, 1) == ["SEA"]


def test_a_lost_city_holds_nobody_up_and_is_updated_when_it_is_back() -> None:
    lost = look(planet(AMS=city("AMS", since=None, lost=True)))
    assert updated(lost) == ["BOM"]
    under_way = look(planet(AMS=city("AMS", "r2", since=None, lost=True)))
    assert updated(under_way) == ["BOM"], "a lost city proves nothing"
    last = planet(**{code: city(code, "r2") for code in CITIES[1:]})
    assert updated(look(last)) == ["AMS"]


def test_nothing_moves_while_paused() -> None:
    stuck = city("AMS", "r2", since=None, still=1e6)
    for cities in (planet(), planet(AMS=stuck)):
        result = look(cities, paused=True)
        assert (result.templates, result.status.failure, result.again) == ({}, None, None)


def cannot_start() -> StartFailure:
    return StartFailure("web-ams-0", reasons.IMAGE_UNAVAILABLE, "no such image", Time(rfc3339(LONG_AGO)))


def test_an_instance_that_cannot_start_fails_its_city_after_half_a_minute() -> None:
    """Not before: a registry may fail briefly."""
    soon = look(
        planet(AMS=city("AMS", "r2", since=None, start_failure=msgspec.to_builtins(cannot_start()), failing=10))
    )
    assert (soon.status.failure, soon.again) == (None, 20.0)
    failed = look(
        planet(AMS=city("AMS", "r2", since=None, start_failure=msgspec.to_builtins(cannot_start()), failing=30))
    )
    failure = failed.status.failure
    assert failure is not None
    assert (failure.city, failure.instance, failure.reason) == ("AMS", "web-ams-0", reasons.IMAGE_UNAVAILABLE)
    assert failed.templates == {}, "the failure is recorded before any city is reverted"


def test_a_city_without_progress_fails_at_its_deadline() -> None:
    stuck = city("AMS", "r2", since=None, still=600, trouble="InsufficientCapacity", detail="no room")
    failure = look(planet(AMS=stuck)).status.failure
    assert failure is not None
    assert (failure.city, failure.reason, failure.message) == (
        "AMS", "InsufficientCapacity", "no progress for 10m: no room"
    )  # fmt: skip


def recorded(wave: int = 1, number: int = 2) -> RolloutStatus:
    failure = waves(
        RolloutFacts(
            HISTORY, [city("AMS", "r2", since=None, start_failure=msgspec.to_builtins(cannot_start()), failing=30)]
        ),
        NOW,
    ).status.failure
    return RolloutStatus(revision=number, wave=wave, waves=3, cities=7, failure=failure)


def test_a_failed_city_goes_back_and_no_other_is_touched() -> None:
    result = look(planet(AMS=city("AMS", "r2", since=None)), known=recorded())
    assert updated(result, 1) == ["AMS"]
    assert result.restored is not None
    assert result.restored.number == 1
    back = look(planet(AMS=city("AMS", "r1", since=None)), known=recorded())
    assert (back.templates, back.status.failure is not None) == ({}, True)


def test_cities_that_are_complete_go_back_no_more_at_a_time_than_the_wave_had() -> None:
    """Four were in the third wave; the failed one is unavailable, so three more may be."""
    cities = planet(**{code: city(code, "r2") for code in CITIES})
    cities[6] = city("GRU", "r2", since=None)
    result = look(cities, known=recorded(wave=3))
    assert updated(result, 1) == ["AMS", "BOM", "CDG", "GRU"]
    assert result.status.wave == 3


def test_hold_leaves_everything_as_it_is_and_goes_on_when_it_mends_itself() -> None:
    hold = Rollout(on_failure="Hold")
    held = look(planet(AMS=city("AMS", "r2", since=None)), known=recorded(), settings=hold)
    assert (held.templates, held.status.failure is not None) == ({}, True)
    mended = look(planet(AMS=city("AMS", "r2")), known=recorded(), settings=hold)
    assert (updated(mended), mended.status.failure) == (["BOM", "CDG"], None)


def test_a_newer_template_begins_anew_with_a_city_that_is_away_already() -> None:
    """BOM is stuck in revision 2; updating it makes no other city unavailable."""
    history = (*HISTORY, revision(3, complete=False))
    cities = planet(AMS=city("AMS", "r2"), BOM=city("BOM", "r2", since=None))
    result = waves(RolloutFacts(history, cities, known=recorded()), NOW)
    assert (updated(result, 3), result.status.failure, result.status.wave) == (["BOM"], None, 1)


def test_cities_go_back_to_what_was_complete_not_to_what_was_tried_before() -> None:
    history = (revision(1), revision(2, complete=False), revision(3, complete=False))
    cities = planet(AMS=city("AMS", "r3", since=None))
    result = waves(RolloutFacts(history, cities, known=recorded(number=3)), NOW)
    assert updated(result, 1) == ["AMS"]


def test_dust_of_a_second_is_rounded_up() -> None:
    """A controller must not wait for 3e-14 seconds, forever."""
    goal = WorkloadGoal()
    goal.wake_in(30.0 - 29.99999999999997)
    assert goal.again == 0.1


def test_a_plan_knows_the_wave_of_each_city() -> None:
    assert list(waves_to_come(RolloutFacts(HISTORY, planet())).values()) == [1, 2, 2, 3, 3, 3, 3]


@given(
    st.integers(1, 40),
    st.sets(st.integers(0, 39)),
    st.sampled_from(["Doubling", "AllAtOnce"]),
    st.sampled_from(["Restore", "Hold"]),
)
def test_a_rollout_ends_and_never_takes_more_than_a_wave(count: int, bad: set[int], how: str, after: str) -> None:
    """For any number of cities and any failures, simulated to the end."""
    settings = msgspec.convert({"waves": how, "onFailure": after}, Rollout)
    cities = [city(f"C{number:02}") for number in range(count)]
    bad = {number for number in bad if number < count}
    known, now, away_before = None, NOW, 0
    for _ in range(4 * count + 10):
        now += 601
        result = waves(RolloutFacts(HISTORY, cities, settings, known), now)
        known = result.status
        gets = {name: each.template_hash for name, each in result.templates.items()}
        touched = [number for number, each in enumerate(cities) if gets.get(each.name, each.revision) != each.revision]
        if how == "Doubling":
            width = 2 ** (max(known.wave, 1) - 1)
            assert len([n for n in touched if cities[n].complete]) + away_before <= width
        if not touched and known.failure is None:
            break
        for number in touched:
            each = cities[number]
            fails = number in bad and gets[each.name] == "r2"
            cities[number] = replace(
                each,
                revision=gets[each.name],
                complete=not fails,
                stable=0 if fails else 601,
                still=601 if fails else 0,
            )
        away_before = sum(not each.complete for each in cities)
    states = {each.revision for each in cities}
    if not bad:
        assert states == {"r2"}
    elif after == "Restore":
        assert states == {"r1"}
        assert all(each.complete for each in cities)
    elif how == "Doubling":
        reached = sum(each.revision == "r2" for each in cities)
        first = min(bad)
        assert reached <= 2 ** (first + 1).bit_length() - 1, "the wave of the first bad city was the last"
