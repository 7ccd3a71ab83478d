"""Clocks, times and durations."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.clock import ManualClock, SystemClock, parse_rfc3339, rfc3339, rfc3339_micro
from tarmac.base.duration import format_duration, human_duration, parse_duration


def test_times_are_written_in_utc() -> None:
    assert rfc3339(1_794_744_000.9) == "2026-11-15T12:00:00Z"
    assert rfc3339_micro(1_794_744_000.25) == "2026-11-15T12:00:00.250000Z"


@pytest.mark.parametrize(
    "text", ["2026-11-15T12:00:00Z", "2026-11-15T13:00:00+01:00", "2026-11-15T12:00:00.000000000Z"]
)
def test_times_are_read(text: str) -> None:
    assert parse_rfc3339(text) == 1_794_744_000


@pytest.mark.parametrize(
    "text", ["", "2026-11-15", "2026-11-15 12:00:00Z", "2026-11-15T12:00:00", "2026-13-15T12:00:00Z"]
)
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rfc3339(text)


@given(st.integers(0, 4_000_000_000))
def test_whole_seconds_survive_the_round_trip(seconds: int) -> None:
    assert parse_rfc3339(rfc3339(seconds)) == seconds


async def test_a_manual_clock_wakes_sleepers_when_their_time_comes() -> None:
    clock = ManualClock(100.0)
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sleeper("late", 10))
        tasks.create_task(sleeper("early", 5))
        await asyncio.sleep(0)
        clock.advance(4)
        await asyncio.sleep(0)
        assert woken == []
        clock.advance(6)
    assert woken == ["early", "late"]
    assert (clock.now(), clock.monotonic()) == (110.0, 10.0)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    clock.advance(2)


def test_the_system_clock_moves() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
    assert clock.now() > 1_700_000_000


@pytest.mark.parametrize(
    ("text", "seconds", "printed"),
    [
        ("1h30m", 5400, "1h30m0s"),
        ("1.5s", 1.5, "1.5s"),
        ("250ms", 0.25, "250ms"),
        ("100us", 0.0001, "100µs"),
        ("0", 0, "0s"),
        ("-5m", -300, "-5m0s"),
    ],
)
def test_go_durations(text: str, seconds: float, printed: str) -> None:
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == printed


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", 'time: invalid duration ""'),
        ("5", 'time: missing unit in duration "5"'),
        ("3d", 'time: unknown unit "d" in duration "3d"'),
        ("10001000h", 'time: invalid duration "10001000h"'),
        ("1h" * 200, f'time: invalid duration "{"1h" * 20}…": longer than 256 characters'),
    ],
)
def test_bad_durations(text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_duration(text)
    assert str(refusal.value) == complaint


MINUTE, HOUR, DAY = 60, 3600, 86400
AGES = [(-5, "<invalid>"), (-1, "0s"), (0.9, "0s"), (119, "119s"), (2 * MINUTE, "2m"), (5 * MINUTE + 7, "5m7s")]
OLDER = [
    (10 * MINUTE + 7, "10m"),
    (3 * HOUR, "3h"),
    (3 * HOUR + 5 * MINUTE, "3h5m"),
    (47 * HOUR, "47h"),
    (2 * DAY, "2d"),
]
OLDEST = [
    (7 * DAY + 3 * HOUR, "7d3h"),
    (8 * DAY + HOUR, "8d"),
    (729 * DAY, "729d"),
    (731 * DAY, "2y1d"),
    (3000 * DAY, "8y"),
]


@pytest.mark.parametrize(("seconds", "age"), AGES + OLDER + OLDEST)
def test_ages(seconds: float, age: str) -> None:
    assert human_duration(seconds) == age
