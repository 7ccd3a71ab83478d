"""Monitors the signals and reclaims resources: garbage on disks first, then pods, one at a time.

After an eviction the next check waits until the pod is gone, or 30 seconds: the resources it frees count before the
next pod is evicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final, Protocol

from tarmac.agent.collection.deadcontainers import DeadContainers
from tarmac.agent.collection.unusedimages import ImageCollector
from tarmac.agent.eviction.judgement import Judgement, condition_of
from tarmac.agent.eviction.ranking import is_critical, message, ranked, resource_of
from tarmac.agent.eviction.signals import EvictionSignals
from tarmac.agent.stats.podstats import PodMetrics, PodStats
from tarmac.agent.stats.summary import Sample
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.kubernetes.core.pods.podresources import pod_amounts, qos_class
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.quantity import Quantity
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.decide.allocatable.reservations import STORAGE
from tarmac.decide.allocatable.thresholds import Threshold
from tarmac.runtimes.interface import RuntimeFault

INTERVAL: Final = 10.0
TERMINATION_TIMEOUT: Final = 30.0
_HARD_GRACE: Final = 1.0  # grace period in seconds of hard thresholds
_log = log("eviction")

REASON: Final = "Evicted"
_TAINT: Final = "node.kubernetes.io/memory-pressure"


class EvictedPods(Protocol):
    """Interface to the pod loop."""

    def allocated(self) -> Sequence[JsonObject]:
        """Return all pods bound here, with allocated resources and current status."""
        ...

    def evict(self, pod: JsonObject, reason: str, message: str, grace: float | None = None) -> None: ...


class EvictionManager:
    """Keeps the node above its thresholds. `changed` is called when the conditions change."""

    def __init__(
        self,
        *,
        signals: EvictionSignals,
        judgement: Judgement,
        pods: EvictedPods,
        stats: PodStats,
        images: ImageCollector,
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
        """Check every ten seconds until cancelled."""
        while True:
            try:
                evicted = await self.check()
            except RuntimeFault as error:
                _log.warning("pod usage cannot be read, no eviction", why=str(error))
                evicted = None
            await (self._clock.sleep(INTERVAL) if evicted is None else self._wait_for_end(evicted))

    async def check(self) -> str | None:
        """Check once; return the uid of an evicted pod, if any. Raises RuntimeFault."""
        due, conditions = self._judgement.judge(self._signals.read(), self._clock.monotonic())
        if conditions != self.conditions:
            # Before the evictions: no new pod may be admitted to the room that they make.
            self.conditions = conditions
            self._changed()
        overdrawn = await self._evict_overdrawn()
        # One step at a time: the room that this pod frees may be enough.
        if overdrawn is not None or not due:
            return overdrawn
        return await self._make_room(due[0])

    def admission(self, pod: JsonObject) -> tuple[str, str] | None:
        """Return reason and message to reject a new pod under pressure, or None."""
        return refusal(pod, self.conditions)

    def metrics(self) -> Iterator[Sample]:
        """Yield the number of evicted pods by signal."""
        for signal, count in self._evicted.items():
            yield "kubelet_evictions", "counter", {"eviction_signal": signal}, count

    async def _evict_overdrawn(self) -> str | None:
        """Evict all pods that exceed their own limits; return the last one, which is waited for."""
        limited = [pod for pod in self._active() if is_limited(pod)]
        if not limited:
            return None
        metrics = await self._pod_metrics(INTERVAL)
        last: str | None = None
        for pod in limited:
            found = metrics.get(pod["metadata"]["uid"])
            if found is not None and (why := overdrawn(pod, found)):
                self._evict(pod, why, _HARD_GRACE, "ephemeralpodfs.limit")
                last = pod["metadata"]["uid"]
        return last

    async def _make_room(self, threshold: Threshold) -> str | None:
        resource = resource_of(threshold.signal)
        _log.warning("eviction threshold crossed", signal=threshold.signal, hard=threshold.hard)
        self._recorder.event(self._about, "Warning", "EvictionThresholdMet", f"Attempting to reclaim {resource}")
        if condition_of(threshold.signal) == "DiskPressure" and await self._reclaim_disk(threshold):
            return None
        return await self._evict_one(threshold)

    async def _reclaim_disk(self, threshold: Threshold) -> bool:
        """Remove dead containers and unused images; return True if that was enough."""
        # Containers first: an image that a dead container uses cannot be removed.
        await self._containers.collect()
        await self._images.free(1 << 62, least_age=0.0)
        # Read again: the judgement was made before anything was freed.
        reading = self._signals.read().get(threshold.signal)
        return reading is None or reading.available >= threshold.least.of(reading.capacity)

    async def _evict_one(self, threshold: Threshold) -> str | None:
        reading = self._signals.read().get(threshold.signal)
        if reading is None:  # the file system cannot be read any more: the next round judges again
            return None
        # Fresh: old figures may rank a pod first that has freed its part since.
        metrics = await self._pod_metrics(0.0)
        for pod in ranked(threshold.signal, self._active(), metrics):
            uid = pod["metadata"]["uid"]
            least = threshold.least.of(reading.capacity)
            text = message(threshold.signal, pod, metrics.get(uid), least, reading.available)
            self._evict(pod, text, _HARD_GRACE if threshold.hard else self._soft_grace, threshold.signal)
            return uid
        _log.warning("no pod can be evicted", signal=threshold.signal)
        return None

    def _evict(self, pod: JsonObject, why: str, grace: float, signal: str) -> None:
        _log.warning("pod evicted", pod=f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", why=why)
        self._evicted[signal] += 1
        self._pods.evict(pod, REASON, why, grace)

    def _active(self) -> list[JsonObject]:
        return [pod for pod in self._pods.allocated() if not is_terminal(pod)]

    async def _pod_metrics(self, fresh: float) -> dict[str, PodMetrics]:
        return {each.uid: each for each in await self._stats.pods(fresh)}

    async def _wait_for_end(self, uid: str) -> None:
        """Wait until the pod has ended, at most 30 seconds."""
        until = self._clock.monotonic() + TERMINATION_TIMEOUT
        while self._clock.monotonic() < until:
            await self._clock.sleep(1.0)
            if uid not in {pod["metadata"]["uid"] for pod in self._active()}:
                return


# Admission of new pods to a node under pressure. Pure.
#
# Under memory pressure only BestEffort pods are rejected (unless they tolerate it); under any other pressure all pods
# are. Critical pods are always admitted.


def refusal(pod: JsonObject, conditions: Set[str]) -> tuple[str, str] | None:
    """Return reason and message for a rejected pod, or None."""
    if not conditions or is_critical(pod):
        return None
    if conditions == {"MemoryPressure"} and (qos_class(pod["spec"]) != "BestEffort" or _tolerates(pod)):
        return None
    return REASON, f"The node had condition: [{' '.join(sorted(conditions))}]. "


def _tolerates(pod: JsonObject) -> bool:
    for toleration in pod["spec"].get("tolerations") or ():
        if toleration.get("effect") not in (None, "", "NoSchedule"):
            continue
        key, exists = toleration.get("key"), toleration.get("operator") == "Exists"
        if (not key and exists) or (key == _TAINT and (exists or not toleration.get("value"))):
            return True
    return False


# Local storage limits per container, per pod and per emptyDir. Pure.
#
# The node's file system has no quotas, so usage is measured and limits are enforced by eviction.


def overdrawn(pod: JsonObject, metrics: PodMetrics) -> str | None:
    """Return kubelet's message for an exceeded limit, or None."""
    return _empty_dirs(pod, metrics) or _whole(pod, metrics) or _containers(pod, metrics)


def is_limited(pod: JsonObject) -> bool:
    """Return True if the pod has any such limit."""
    spec = pod["spec"]
    sized = any((volume.get("emptyDir") or {}).get("sizeLimit") for volume in spec.get("volumes") or ())
    return sized or STORAGE in pod_amounts(spec, "limits")


def _empty_dirs(pod: JsonObject, metrics: PodMetrics) -> str | None:
    for volume in pod["spec"].get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        usage = metrics.volumes.get(volume["name"])
        if limit and usage is not None and (most := Quantity.parse(limit)) and usage.used > most.value():
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{most}". '
    return None


def _whole(pod: JsonObject, metrics: PodMetrics) -> str | None:
    limit = pod_amounts(pod["spec"], "limits").get(STORAGE)
    if limit is not None and metrics.ephemeral > limit.value():
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    return None


def _containers(pod: JsonObject, metrics: PodMetrics) -> str | None:
    limits = {
        each["name"]: ((each.get("resources") or {}).get("limits") or {}).get(STORAGE)
        for each in pod["spec"]["containers"]
    }
    for container in metrics.containers:
        limit = limits.get(container.name)
        used = container.measured.usage.disk + container.logs
        if limit and used > (most := Quantity.parse(limit)).value():
            return f'Container {container.name} exceeded its local ephemeral storage limit "{most}". '
    return None
