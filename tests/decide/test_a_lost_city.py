"""Instances of a lost city: wait, move step by step, spread, return."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.compute.workload import OnCityLoss
from tarmac.decide.cityloss import STEP_SECONDS, Loss, loss_of, moves, share_out
from tarmac.decide.placement import LocationView
from tarmac.decide.reasons import CATALOGUE

MOVE = OnCityLoss("Move", ["SEA", "LHR"], "5m")
ROOMS = {"SEA": 100, "LHR": 50, "NRT": 1000}


def lost(standing: dict[str, int] | None = None, wanted: int = 12) -> Loss:
    """Return a city that was lost at time zero."""
    return Loss("DFW", wanted, lost_since=0.0, standing=standing or {})


def test_by_default_instances_wait_for_their_city() -> None:
    """The reason says how to change the default, Stay."""
    for policy in (None, OnCityLoss(), OnCityLoss("Stay", ["SEA"])):
        verdict = moves(policy, lost(), ROOMS, now=1e6)
        assert verdict.value == {}
        assert verdict.refusals[0].reason == "CityLost"
        assert "Move" in verdict.refusals[0].change


def test_nothing_moves_before_the_time_is_up() -> None:
    """A short outage moves no instance; the message shows the remaining time."""
    verdict = moves(MOVE, lost(), ROOMS, now=299)
    assert verdict.value == {}
    assert verdict.refusals[0].message == "DFW is lost; its instances move in 1s."


def test_instances_move_a_quarter_at_a_time_by_room() -> None:
    """Twice the room takes twice as many."""
    first = moves(MOVE, lost(), ROOMS, now=300)
    assert first.value == {"SEA": 2, "LHR": 1}
    assert first.refusals[0].reason == "MoveRateLimited"
    last = moves(MOVE, lost(first.value), ROOMS, now=300 + 3 * STEP_SECONDS)
    assert last.value == {"SEA": 8, "LHR": 4}
    assert not last.refusals


def test_moved_instances_do_not_move_again() -> None:
    """A city that fills up keeps its instances."""
    verdict = moves(MOVE, lost({"LHR": 3}), {"SEA": 50, "LHR": 0}, now=1e6)
    assert verdict.value == {"SEA": 9, "LHR": 3}


def test_cities_without_room_are_named() -> None:
    """The rest waits, with the change that would help."""
    verdict = moves(MOVE, lost(), {"SEA": 5}, now=1e6)
    assert verdict.value == {"SEA": 5}
    assert verdict.refusals[0].reason == "InsufficientCapacity"
    nowhere = moves(MOVE, lost(), {"NRT": 5}, now=1e6)
    assert nowhere.value == {}
    assert nowhere.refusals[0].reason == "NoFallbackCity"


def test_instances_come_back_when_the_city_has_stayed_healthy() -> None:
    """With the same wait and the same steps as on the way out."""
    back = Loss("DFW", 12, healthy_since=1000.0, standing={"SEA": 8, "LHR": 4})
    assert moves(MOVE, back, ROOMS, now=1299).value == {"SEA": 8, "LHR": 4}
    assert moves(MOVE, back, ROOMS, now=1300).value == {"SEA": 5, "LHR": 4}
    assert moves(MOVE, back, ROOMS, now=1300 + 3 * STEP_SECONDS).value == {}


def test_a_city_is_lost_when_none_of_its_locations_is_ready() -> None:
    """Since the last one became unready; one that returns ends the loss; a city without a Location is not lost."""
    city = {"topology.datum.net/city-code": "DFW"}
    down = [LocationView("a", city, ready=False, since=10.0), LocationView("b", city, ready=False, since=20.0)]
    assert loss_of("DFW", 3, down, {}).lost_since == 20.0
    recovered = loss_of("DFW", 3, [down[0], LocationView("b", city, ready=True, since=30.0)], {})
    assert (recovered.lost_since, recovered.healthy_since) == (None, 30.0)
    assert loss_of("SEA", 3, down, {}) == Loss("SEA", 3)


rooms = st.lists(st.tuples(st.sampled_from(["A", "B", "C", "D"]), st.integers(0, 50)), unique_by=lambda entry: entry[0])


@given(st.integers(0, 200), rooms)
def test_sharing_out_never_herds(count: int, rooms: list[tuple[str, int]]) -> None:
    """No city gets more than fits, nor more than one above its proportional share; all that fits is placed."""
    shares = share_out(count, rooms)
    total = sum(room for _, room in rooms)
    placed = min(count, total)
    assert sum(shares.values()) == placed
    for city, room in rooms:
        assert shares.get(city, 0) <= room
        assert shares.get(city, 0) <= (placed * room // total if total else 0) + 1


@given(
    st.integers(1, 40),
    st.dictionaries(st.sampled_from(["SEA", "LHR"]), st.integers(0, 30)),
    st.lists(st.floats(0, 2000), min_size=1, max_size=8),
    st.booleans(),
)
def test_moves_only_grow_while_lost_and_only_shrink_after(
    wanted: int, rooms: dict[str, int], times: list[float], healthy: bool
) -> None:
    """Never more elsewhere than the city wants, never a larger change than a step allows, every refusal explained."""
    standing = dict(share_out(wanted, [("SEA", 3), ("LHR", 3)])) if healthy else {}
    step = -(-wanted // 4)
    for now in sorted(times):
        loss = Loss("DFW", wanted, None if healthy else 0.0, 0.0 if healthy else None, standing)
        verdict = moves(MOVE, loss, rooms, now)
        target = verdict.value
        assert target is not None
        assert 0 <= sum(target.values()) <= wanted
        for city in {*standing, *target}:
            before, after = standing.get(city, 0), target.get(city, 0)
            assert (after <= before) if healthy else (before <= after <= before + rooms.get(city, 0))
        allowed = step * (1 + int(max(0.0, now - 300) // STEP_SECONDS)) if now >= 300 else 0
        assert healthy or sum(target.values()) <= allowed
        assert all(refusal.reason in CATALOGUE for refusal in verdict.refusals)
        rooms = {city: room - max(0, target.get(city, 0) - standing.get(city, 0)) for city, room in rooms.items()}
        standing = target


@pytest.mark.parametrize("order", [["SEA", "LHR"], ["LHR", "SEA"]])
def test_preference_decides_between_equals(order: list[str]) -> None:
    """A single instance goes to the first of equally roomy cities."""
    assert moves(OnCityLoss("Move", order, "0s"), lost(wanted=1), {"SEA": 5, "LHR": 5}, now=1).value == {order[0]: 1}
