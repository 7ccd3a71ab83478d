"""Usage of pods and containers: two responses of the runtime, joined, with rates since the previous collection.

A collection makes the runtime inspect every sandbox, so callers within a few seconds share one. Sizes of volumes and
logs are found by walking directories; volume sizes are cached for a minute.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.runtimes.interface import Runtime, RuntimeContainer, RuntimeSandbox, RuntimeUsage
from tarmac.runtimes.labels import CONTAINER_NAME, POD_UID
from tarmac.volumes.interface import VolumeError, Volumes
from tarmac.volumes.interface import VolumeUsage as VolumeUsage

MAX_AGE: Final = 5.0
VOLUME_CACHE_TTL: Final = 60.0
_NEVER: Final = float("-inf")
_log = log("stats")


@dataclass(frozen=True, slots=True)
class Measured:
    """A usage, and the cores used since the previous collection; None at the first."""

    usage: RuntimeUsage
    cores: float | None = None


@dataclass(frozen=True, slots=True)
class ContainerMetrics:
    """Metrics of a running container."""

    name: str
    started: float
    measured: Measured
    logs: int  # bytes


@dataclass(frozen=True, slots=True)
class PodMetrics:
    """Metrics of a pod with a sandbox. `whole` is the sandbox with all its containers."""

    namespace: str
    name: str
    uid: str
    started: float
    containers: tuple[ContainerMetrics, ...]
    whole: Measured | None
    volumes: Mapping[str, VolumeUsage] = field(default_factory=dict[str, VolumeUsage])

    @property
    def memory(self) -> int:
        """The working set."""
        if self.whole is not None:
            return self.whole.usage.memory_working_set
        return sum(each.measured.usage.memory_working_set for each in self.containers)

    @property
    def ephemeral(self) -> int:
        """Bytes on the node's disk: writable layers, logs, volumes without their own disk."""
        layers = sum(each.measured.usage.disk + each.logs for each in self.containers)
        return layers + sum(each.used for each in self.volumes.values() if each.shared)

    @property
    def inodes(self) -> int:
        """Inodes on the node's disk."""
        layers = sum(each.measured.usage.inodes for each in self.containers)
        return layers + sum(each.inodes_used for each in self.volumes.values() if each.shared)

    @property
    def processes(self) -> int:
        """The number of processes."""
        if self.whole is not None and self.whole.usage.processes:
            return self.whole.usage.processes
        return sum(each.measured.usage.processes for each in self.containers)


class PodStats:
    """Collects usage of all pods at once. `logs` is the directory of all pods' logs."""

    def __init__(self, runtime: Runtime, volumes: Volumes, logs: Path, clock: Clock) -> None:
        self._runtime = runtime
        self._volumes = volumes
        self._logs = logs
        self._clock = clock
        self._last: tuple[float, Sequence[PodMetrics]] = (_NEVER, ())
        self._before: dict[str, RuntimeUsage] = {}
        self._walks: dict[str, tuple[float, Mapping[str, VolumeUsage]]] = {}
        self._lock = asyncio.Lock()

    async def pods(self, fresh: float = MAX_AGE) -> Sequence[PodMetrics]:
        """Return all pods with a sandbox, at most `fresh` seconds old. Raises RuntimeFault."""
        # One collection at a time: a caller that waits for it gets its result.
        async with self._lock:
            at, found = self._last
            if self._clock.monotonic() - at >= fresh:
                found = await self._collect()
                self._last = (self._clock.monotonic(), found)
            return found

    async def _collect(self) -> Sequence[PodMetrics]:
        sandboxes, containers, of_containers, of_sandboxes = await asyncio.gather(
            self._runtime.sandboxes(),
            self._runtime.containers(),
            self._runtime.container_usage(),
            self._runtime.sandbox_usage(),
        )
        measured = {each.id: self._measured(each) for each in (*of_containers, *of_sandboxes)}
        # Replaced as a whole: figures of ended containers would be kept for ever.
        self._before = {each.id: each for each in (*of_containers, *of_sandboxes)}
        by_pod: dict[str, list[RuntimeContainer]] = {}
        for container in containers:
            # The answers are not of one moment: a container may be missing in one of them.
            if container.state == "running" and container.id in measured:
                by_pod.setdefault(container.labels.get(POD_UID, ""), []).append(container)
        live = [sandbox for sandbox in sandboxes if sandbox.ready]
        self._walks = {uid: walk for uid, walk in self._walks.items() if uid in {each.pod.uid for each in live}}
        return [
            await self._pod(sandbox, by_pod.get(sandbox.pod.uid, ()), measured)
            for sandbox in sorted(live, key=lambda each: (each.pod.namespace, each.pod.name))
        ]

    async def _pod(
        self, sandbox: RuntimeSandbox, containers: Sequence[RuntimeContainer], measured: Mapping[str, Measured]
    ) -> PodMetrics:
        pod = sandbox.pod
        folder = self._logs / f"{pod.namespace}_{pod.name}_{pod.uid}"
        figures = [
            ContainerMetrics(name, each.created_at, measured[each.id], _size(folder / name))
            for each in sorted(containers, key=lambda each: each.created_at)
            for name in (each.labels.get(CONTAINER_NAME, each.name),)
        ]
        return PodMetrics(
            pod.namespace,
            pod.name,
            pod.uid,
            sandbox.created_at,
            tuple(figures),
            measured.get(sandbox.id),
            await self._volume_usage(pod.uid),
        )

    def _measured(self, usage: RuntimeUsage) -> Measured:
        before = self._before.get(usage.id)
        # A counter that has fallen was reset: its difference is not a rate.
        if before is None or usage.at <= before.at or usage.cpu < before.cpu:
            return Measured(usage)
        return Measured(usage, (usage.cpu - before.cpu) / (usage.at - before.at))

    async def _volume_usage(self, uid: str) -> Mapping[str, VolumeUsage]:
        at, known = self._walks.get(uid, (_NEVER, {}))
        if self._clock.monotonic() - at < VOLUME_CACHE_TTL:
            return known
        try:
            known = await self._volumes.usage(uid)
        except (VolumeError, OSError) as error:
            _log.debug("volume usage of a pod cannot be read", pod=uid, why=str(error))
        # Also after a failure: a volume that cannot be read is not walked at every scrape.
        self._walks[uid] = (self._clock.monotonic(), known)
        return known


def _size(folder: Path) -> int:
    return sum(_sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                yield entry.stat(follow_symlinks=False).st_size
