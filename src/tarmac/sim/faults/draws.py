"""Draws of faults from one seeded stream, with a count of every hit.

The names of faults appear in reports; `KINDS` lists them all, so a run can report which faults never happened.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tarmac.base.randomness import Randomness

WATCH_DROP = "watch-drop"
HISTORY_LOST = "history-lost"
CONFLICT = "conflict"
LOST_REQUEST = "lost-request"
LOST_ANSWER = "lost-answer"
SLOW_WRITE = "slow-write"
CONTROLLER_CRASH = "controller-crash"
LEADER_CHANGE = "leader-change"
NODE_DEATH = "node-death"
AGENT_END = "agent-end"
CITY_PARTITION = "city-partition"
CLOCK_JUMP = "clock-jump"

KINDS = (
    WATCH_DROP, HISTORY_LOST, CONFLICT, LOST_REQUEST, LOST_ANSWER, SLOW_WRITE, CONTROLLER_CRASH, LEADER_CHANGE,
    NODE_DEATH, AGENT_END, CITY_PARTITION, CLOCK_JUMP,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Fault rates of the connection: probability per request or, for watches, mean seconds until one breaks."""

    conflict: float = 0.02
    lost_request: float = 0.01
    lost_answer: float = 0.01
    slow: float = 0.02
    delay: tuple[float, float] = (1.0, 40.0)  # seconds of a slow write
    watch_seconds: float = 200.0


class FaultInjector:
    """The fault draws. After `stop`, no fault happens any more."""

    def __init__(self, randomness: Randomness, odds: FaultRates | None = None) -> None:
        self.hits: Counter[str] = Counter()
        self.randomness = randomness
        self.odds = odds or FaultRates()
        self._on = True

    @property
    def on(self) -> bool:
        """True while faults may happen."""
        return self._on

    def stop(self) -> None:
        """Disable all faults from now on."""
        self._on = False

    def strikes(self, kind: str, probability: float) -> bool:
        """Draw whether this fault happens now; count it if so."""
        if not self._on or self.randomness.uniform(0, 1) >= probability:
            return False
        self.hits[kind] += 1
        return True
