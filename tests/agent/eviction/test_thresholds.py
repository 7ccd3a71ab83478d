"""Eviction thresholds: grace periods, and the duration of a pressure condition."""

from __future__ import annotations

from tarmac.agent.eviction.judgement import Judgement
from tarmac.agent.eviction.signals import Reading
from tarmac.decide.allocatable.thresholds import thresholds

MEMORY = "memory.available"


def readings(available: int) -> dict[str, Reading]:
    return {MEMORY: Reading(available, 1000)}


def judgement(hard: str = "100", soft: str = "", grace: str = "30s", reclaim: str = "") -> Judgement:
    soft_map, grace_map = ({MEMORY: soft}, {MEMORY: grace}) if soft else ({}, {})
    reclaim_map = {MEMORY: reclaim} if reclaim else {}
    return Judgement(thresholds({MEMORY: hard} if hard else {}, soft_map, grace_map, reclaim_map), 300.0)


def test_enough_is_enough() -> None:
    assert judgement().judge(readings(100), 0) == ([], frozenset())


def test_a_hard_threshold_acts_at_once() -> None:
    due, conditions = judgement().judge(readings(99), 0)
    assert [each.signal for each in due] == [MEMORY]
    assert conditions == {"MemoryPressure"}


def test_a_condition_stays_for_the_transition_period() -> None:
    found = judgement()
    found.judge(readings(99), 0)
    assert found.judge(readings(500), 299) == ([], {"MemoryPressure"})
    assert found.judge(readings(500), 301) == ([], frozenset())


def test_a_soft_threshold_waits_and_shows() -> None:
    found = judgement(hard="", soft="200")
    assert found.judge(readings(150), 0) == ([], {"MemoryPressure"})
    assert found.judge(readings(150), 29)[0] == []
    assert len(found.judge(readings(150), 30)[0]) == 1


def test_a_soft_threshold_starts_anew_when_it_was_not_crossed_in_between() -> None:
    found = judgement(hard="", soft="200")
    found.judge(readings(150), 0)
    found.judge(readings(250), 20)
    assert found.judge(readings(150), 40)[0] == []


def test_once_crossed_the_minimum_reclaim_comes_on_top() -> None:
    found = judgement(reclaim="50")
    assert found.judge(readings(120), 0)[0] == []
    assert len(found.judge(readings(99), 1)[0]) == 1
    assert len(found.judge(readings(120), 2)[0]) == 1
    assert found.judge(readings(150), 3)[0] == []


def test_memory_comes_before_disk_and_pods_common_memory_counts_too() -> None:
    limits = thresholds({"nodefs.available": "10%", MEMORY: "100"}, {}, {}, {})
    both = {
        "nodefs.available": Reading(1, 1000),
        MEMORY: Reading(500, 1000),
        "allocatableMemory.available": Reading(50, 800),
    }
    due, conditions = Judgement(limits, 300).judge(both, 0)
    assert [each.signal for each in due] == ["allocatableMemory.available", "nodefs.available"]
    assert conditions == {"MemoryPressure", "DiskPressure"}


def test_a_signal_that_cannot_be_read_is_not_crossed() -> None:
    assert judgement().judge({}, 0) == ([], frozenset())
