"""Watching the signals, and acting: disks are tidied before a pod has to go, and pods go one at a time.

After an eviction the next look waits until the pod is gone, or half a minute: what it frees counts before another
one goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from tarmac.agent.collection.containers import DeadContainers
from tarmac.agent.collection.images import Images
from tarmac.agent.eviction.admission import REASON, refusal
from tarmac.agent.eviction.judgement import Judgement, condition_of
from tarmac.agent.eviction.localstorage import is_limited, overdrawn
from tarmac.agent.eviction.ranking import message, ranked, resource_of
from tarmac.agent.eviction.signals import Signals
from tarmac.agent.stats.pods import PodFigures, PodStats
from tarmac.agent.stats.summary import Sample
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.events import InvolvedObject, Recorder
from tarmac.decide.allocatable.thresholds import Threshold
from tarmac.runtimes.interface import RuntimeFault

EVERY: Final = 10.0
PATIENCE: Final = 30.0
_AT_ONCE: Final = 1.0  # seconds that hard thresholds leave a pod
_log = log("eviction")


class EvictedPods(Protocol):
    """Of the pod loop, what eviction needs."""

    def allocated(self) -> Sequence[JsonObject]:
        """Every pod bound here, with the resources it has been promised and its status as of now."""
        ...

    def evict(self, pod: JsonObject, reason: str, message: str, grace: float | None = None) -> None: ...


class Evictions:
    """Keeps the node above its thresholds. `changed` is called when the conditions are others."""

    def __init__(
        self,
        *,
        signals: Signals,
        judgement: Judgement,
        pods: EvictedPods,
        stats: PodStats,
        images: Images,
        containers: DeadContainers,
        recorder: Recorder,
        about: InvolvedObject,
        clock: Clock,
        soft_grace: float = 0.0,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.conditions: frozenset[str] = frozenset()
        self._signals = signals
        self._judgement = judgement
        self._pods = pods
        self._stats = stats
        self._images = images
        self._containers = containers
        self._recorder = recorder
        self._about = about
        self._clock = clock
        self._soft_grace = soft_grace
        self._changed = changed
        self._evicted = Counter[str]()

    async def run(self) -> None:
        """Look every ten seconds until cancelled."""
        while True:
            try:
                evicted = await self.look()
            except RuntimeFault as error:
                _log.warning("how much pods use is not known", why=str(error))
                evicted = None
            await (self._clock.sleep(EVERY) if evicted is None else self._gone(evicted))

    async def look(self) -> str | None:
        """One look; the uid of the pod that has to go, if one has. Raises RuntimeFault."""
        due, conditions = self._judgement.judge(self._signals.read(), self._clock.monotonic())
        if conditions != self.conditions:
            self.conditions = conditions
            self._changed()
        overdrawn = await self._evict_overdrawn()
        if overdrawn is not None or not due:
            return overdrawn
        return await self._make_room(due[0])

    def admission(self, pod: JsonObject) -> tuple[str, str] | None:
        """Why the node takes no such pod now: reason and message."""
        return refusal(pod, self.conditions)

    def metrics(self) -> Iterator[Sample]:
        """How many pods had to go."""
        for signal, count in self._evicted.items():
            yield "kubelet_evictions", "counter", {"eviction_signal": signal}, count

    async def _evict_overdrawn(self) -> str | None:
        """Pods past a limit of their own go in any case; the last of them is waited for."""
        limited = [pod for pod in self._active() if is_limited(pod)]
        if not limited:
            return None
        figures = await self._figures(EVERY)
        last: str | None = None
        for pod in limited:
            found = figures.get(pod["metadata"]["uid"])
            if found is not None and (why := overdrawn(pod, found)):
                self._evict(pod, why, _AT_ONCE, "ephemeralpodfs.limit")
                last = pod["metadata"]["uid"]
        return last

    async def _make_room(self, threshold: Threshold) -> str | None:
        resource = resource_of(threshold.signal)
        _log.warning("the node runs short", signal=threshold.signal, hard=threshold.hard)
        self._recorder.event(self._about, "Warning", "EvictionThresholdMet", f"Attempting to reclaim {resource}")
        if condition_of(threshold.signal) == "DiskPressure" and await self._tidied(threshold):
            return None
        return await self._evict_one(threshold)

    async def _tidied(self, threshold: Threshold) -> bool:
        """Remove dead containers and unused images; whether that was enough."""
        await self._containers.collect()
        await self._images.free(1 << 62, least_age=0.0)
        reading = self._signals.read().get(threshold.signal)
        return reading is None or reading.available >= threshold.least.of(reading.capacity)

    async def _evict_one(self, threshold: Threshold) -> str | None:
        reading = self._signals.read()[threshold.signal]
        figures = await self._figures(0.0)
        for pod in ranked(threshold.signal, self._active(), figures):
            uid = pod["metadata"]["uid"]
            least = threshold.least.of(reading.capacity)
            said = message(threshold.signal, pod, figures.get(uid), least, reading.available)
            self._evict(pod, said, _AT_ONCE if threshold.hard else self._soft_grace, threshold.signal)
            return uid
        _log.warning("no pod can be evicted", signal=threshold.signal)
        return None

    def _evict(self, pod: JsonObject, why: str, grace: float, signal: str) -> None:
        _log.warning("a pod is evicted", pod=f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", why=why)
        self._evicted[signal] += 1
        self._pods.evict(pod, REASON, why, grace)

    def _active(self) -> list[JsonObject]:
        return [pod for pod in self._pods.allocated() if not is_terminal(pod)]

    async def _figures(self, fresh: float) -> dict[str, PodFigures]:
        return {each.uid: each for each in await self._stats.pods(fresh)}

    async def _gone(self, uid: str) -> None:
        """Wait until the pod has ended, at most half a minute."""
        until = self._clock.monotonic() + PATIENCE
        while self._clock.monotonic() < until:
            await self._clock.sleep(1.0)
            if uid not in {pod["metadata"]["uid"] for pod in self._active()}:
                return
