"""Evaluates thresholds over time and derives node conditions. Readings and time are passed in.

A crossed threshold stays crossed until its minimum reclaim above the threshold is reached. A condition stays for the
transition period, so that it does not flap; a soft threshold counts once it was crossed for its whole grace period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tarmac.agent.eviction.signals import Reading, Readings
from tarmac.decide.allocatable.thresholds import ALLOCATABLE_MEMORY, MEMORY_AVAILABLE, PID_AVAILABLE, Threshold

_OTHER_CONDITION: Final = "DiskPressure"
_MEMORY: Final = (MEMORY_AVAILABLE, ALLOCATABLE_MEMORY)
_CONDITIONS: Final = {**dict.fromkeys(_MEMORY, "MemoryPressure"), PID_AVAILABLE: "PIDPressure"}


class Judgement:
    """Stores when thresholds were first crossed and conditions last observed."""

    def __init__(self, thresholds: Sequence[Threshold], transition: float) -> None:
        self._thresholds = [*thresholds, *_for_all_pods(thresholds)]
        self._transition = transition
        self._since: dict[Threshold, float] = {}
        self._observed: dict[str, float] = {}

    def judge(self, readings: Readings, now: float) -> tuple[list[Threshold], frozenset[str]]:
        """Return the thresholds to act on, memory first, and the conditions to report. `now` is monotonic."""
        crossed = [each for each in self._thresholds if self._is_crossed(each, readings.get(each.signal))]
        self._since = {each: self._since.get(each, now) for each in crossed}
        for each in crossed:
            self._observed[condition_of(each.signal)] = now
        # With a transition period of 0 a condition lasts for the check that observed it.
        self._observed = {kind: at for kind, at in self._observed.items() if now - at < self._transition or at == now}
        due = [each for each in crossed if now - self._since[each] >= each.grace]
        return sorted(due, key=lambda each: (each.signal not in _MEMORY, not each.hard)), frozenset(self._observed)

    def _is_crossed(self, threshold: Threshold, reading: Reading | None) -> bool:
        if reading is None:
            return False
        least = threshold.least.of(reading.capacity)
        if threshold in self._since:
            least += threshold.reclaim.of(reading.capacity)
        return reading.available < least


def _for_all_pods(thresholds: Sequence[Threshold]) -> list[Threshold]:
    """Derive allocatable memory thresholds from the node's: they apply to the memory of pods too."""
    return [
        replace(each, signal=ALLOCATABLE_MEMORY) for each in thresholds if each.signal == MEMORY_AVAILABLE and each.hard
    ]


def condition_of(signal: str) -> str:
    """Return the condition of a signal."""
    return _CONDITIONS.get(signal, _OTHER_CONDITION)
