"""Back-off of crashing containers and failing pulls, as kubelet's: the delay doubles with every restart.

A delay starts at the failure it follows. A key without failures for twice the maximum delay is reset.
"""

from __future__ import annotations

INITIAL_DELAY = 10.0
MAX_DELAY = 300.0


class BackOffs:
    """Delays by key. Times are seconds of one clock, chosen by the caller."""

    def __init__(self, first: float = INITIAL_DELAY, max_delay: float = MAX_DELAY) -> None:
        self._initial = first
        self._max_delay = max_delay
        self._entries: dict[str, tuple[float, float]] = {}  # delay, and the time it was set

    def delay(self, key: str, failed_at: float) -> float:
        """Return the seconds to wait after a failure at this time; 0 if it follows none."""
        delay, since = self._entries.get(key, (0.0, failed_at))
        return 0.0 if failed_at - since > 2 * self._max_delay else delay

    def next(self, key: str, failed_at: float, now: float) -> None:
        """Double the delay: a retry starts now, after that failure."""
        delay = self.delay(key, failed_at)
        self._entries[key] = (min(2 * delay, self._max_delay) if delay else min(self._initial, self._max_delay), now)

    def forget(self, key: str) -> None:
        """Reset the delay after a success."""
        self._entries.pop(key, None)
