"""Back-offs of crashing containers and failing pulls, as kubelet's: the delay doubles with every restart.

A delay is counted from the moment of the failure it follows. What held for twice the longest delay starts afresh.
"""

from __future__ import annotations

FIRST = 10.0
LONGEST = 300.0


class BackOffs:
    """Delays by key. Times are Unix seconds."""

    def __init__(self, first: float = FIRST, longest: float = LONGEST) -> None:
        self._first = first
        self._longest = longest
        self._entries: dict[str, tuple[float, float]] = {}  # delay, when it was set

    def delay(self, key: str, failed_at: float) -> float:
        """Seconds to wait after a failure at this time; 0 when it is not one of a row."""
        delay, since = self._entries.get(key, (0.0, failed_at))
        return 0.0 if failed_at - since > 2 * self._longest else delay

    def next(self, key: str, failed_at: float, now: float) -> None:
        """It is tried again now, after that failure."""
        delay = self.delay(key, failed_at)
        self._entries[key] = (min(2 * delay, self._longest) if delay else min(self._first, self._longest), now)

    def forget(self, key: str) -> None:
        """It works."""
        self._entries.pop(key, None)
