"""Deadlines of pods (`activeDeadlineSeconds`), counted from their start time as on real nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.base.clock import Clock, parse_rfc3339
from tarmac.sim.nodes.pod import SimulatedPod


class Deadlines:
    """One timer per pod with a deadline; `expired` is called when it fires."""

    def __init__(self, clock: Clock, expired: Callable[[SimulatedPod], None]) -> None:
        self._clock = clock
        self._expired = expired
        self._timers: dict[str, asyncio.TimerHandle] = {}  # by uid

    def keep(self, pod: SimulatedPod) -> None:
        """Set or update the timer to the pod's current deadline."""
        self.forget(pod)
        if pod.deadline is not None:
            left = parse_rfc3339(pod.start_time) + pod.deadline - self._clock.now()
            self._timers[pod.uid] = asyncio.get_running_loop().call_later(max(0.0, left), self._act, pod)

    def forget(self, pod: SimulatedPod) -> None:
        """Cancel the timer of a removed pod."""
        timer = self._timers.pop(pod.uid, None)
        if timer is not None:
            timer.cancel()

    def _act(self, pod: SimulatedPod) -> None:
        del self._timers[pod.uid]
        self._expired(pod)
