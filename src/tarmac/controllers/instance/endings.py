"""Pods ended by their nodes, and the back-off before an Instance gets the next one.

A Pod of an Instance always restarts, so it ends only when its node rejects or evicts it. The next Pod may meet the same
node and the same cause, so each ending of one Instance for one cause doubles the delay, and the scheduler is asked to
avoid the node. Kept in memory: a restarted controller begins with the shortest delay.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tarmac.base.clock import Clock, rfc3339
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal

INITIAL_BACKOFF_SECONDS: Final = 1.0
MAX_BACKOFF_SECONDS: Final = 300.0
FORGOTTEN_SECONDS: Final = 600.0  # without an ending
_MAX_MESSAGE: Final = 500  # characters; nodes write it
RULE: Final = "backoff"


class _Ending(NamedTuple):
    uid: str  # of the Instance
    cause: str
    message: str
    node: str
    times: int
    at: float


class PodEndings:
    """The last ending of each Instance's Pod, by the Instance's key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Ending] = {}

    def note(self, key: str, uid: str, node: str, cause: str, message: str) -> None:
        """Record that a Pod has ended."""
        before = self._recent(key, uid)
        times = before.times + 1 if before is not None and before.cause == cause else 1
        self._known[key] = _Ending(uid, cause, message[:_MAX_MESSAGE], node, times, self._clock.monotonic())

    def forget(self, key: str) -> None:
        """Drop the state of a deleted Instance."""
        self._known.pop(key, None)

    def avoided(self, key: str, uid: str) -> str:
        """Return the node that ended the last Pod; empty when none did recently."""
        recent = self._recent(key, uid)
        return recent.node if recent is not None else ""

    def left(self, key: str, uid: str) -> float:
        """Return the seconds until the next Pod may be created; 0 or less when it may be now."""
        recent = self._recent(key, uid)
        if recent is None:
            return 0
        wait = min(MAX_BACKOFF_SECONDS, INITIAL_BACKOFF_SECONDS * 2.0 ** min(recent.times - 1, 30))
        return recent.at + wait - self._clock.monotonic()

    def refusal(self, key: str, uid: str) -> Refusal | None:
        """Return the refusal during the back-off; None when a Pod may be created."""
        left, recent = self.left(key, uid), self._recent(key, uid)
        if recent is None or left <= 0:
            return None
        often = "once" if recent.times == 1 else f"{recent.times} times"
        again = rfc3339(self._clock.now() + left)
        message = f"{recent.node} has ended its pod {often}: {recent.message}; the next one is made at {again}."
        return Refusal(reasons.REFUSED_BY_NODE, message, rule=RULE, change="See what the node lacks, or add a node.")

    def _recent(self, key: str, uid: str) -> _Ending | None:
        known = self._known.get(key)
        # By uid: an Instance made again starts without its predecessor's delay.
        if known is None or known.uid != uid or self._clock.monotonic() - known.at > FORGOTTEN_SECONDS:
            return None
        return known
