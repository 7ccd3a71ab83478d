"""`/stats/summary` and `/metrics`, with kubelet's structure and names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tarmac.agent.stats.hostusage import FileSystem, MachineStats, file_system
from tarmac.agent.stats.podstats import ContainerMetrics, Measured, PodMetrics, PodStats
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.metrics import labels_text
from tarmac.volumes.interface import VolumeUsage as VolumeUsage

_NANO = 1_000_000_000
Sample = tuple[str, str, Mapping[str, str], float]
"""Family, type, labels and value."""

UNLABELLED: Mapping[str, str] = {}


def metrics_text(samples: Iterable[Sample]) -> str:
    """Return samples in Prometheus' text format."""
    families: dict[str, list[Sample]] = {}
    for sample in samples:
        # By family: the text format wants all lines of a family together.
        families.setdefault(_family(sample), []).append(sample)
    lines: list[str] = []
    for name, each in sorted(families.items()):
        lines.append(f"# TYPE {name} {each[0][1]}")
        lines += (f"{sample}{labels_text(labels.items())} {value:.12g}" for sample, _, labels, value in each)
    return "\n".join(lines) + "\n"


class NodeStats:
    """The metrics of the node's HTTP API. `image_root` returns a path on the file system of images."""

    def __init__(
        self,
        node_name: str,
        machine: MachineStats,
        pods: PodStats,
        root: Path,
        image_root: Callable[[], str],
        clock: Clock,
        sources: Sequence[Callable[[], Iterable[Sample]]] = (),
        refreshes: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        """`sources` yield samples for `/metrics`; `refreshes` are awaited before each scrape."""
        self._node_name = node_name
        self._machine = machine
        self._pods = pods
        self._root = root
        self._image_root = image_root
        self._clock = clock
        self._sources = sources
        self._refreshes = refreshes
        self._cpu_before: tuple[float, float] | None = None

    async def summary(self) -> JsonObject:
        """Return the content of `/stats/summary`. Raises RuntimeFault."""
        pods = await self._pods.pods()
        # Read once: all pods share this disk, and their documents must agree.
        disk = file_system(self._root)
        return {"node": self._node(disk), "pods": [pod_document(each, disk, self._clock.now()) for each in pods]}

    async def metrics(self) -> str:
        """Return the agent's metrics in Prometheus' text format."""
        # Before the sources, which yield the results of these queries.
        for refresh in self._refreshes:
            await refresh()
        return metrics_text(sample for source in self._sources for sample in source())

    def _node(self, disk: FileSystem) -> JsonObject:
        now, memory = self._clock.now(), self._machine.memory()
        most, running = self._machine.processes()
        time = rfc3339(now)
        return {
            "nodeName": self._node_name,
            "startTime": rfc3339(self._machine.started()),
            "cpu": self._cpu(now),
            "memory": {
                "time": time,
                "availableBytes": memory.available,
                "usageBytes": memory.usage,
                "workingSetBytes": memory.working_set,
                "rssBytes": memory.rss,
                "pageFaults": memory.page_faults,
                "majorPageFaults": memory.major_page_faults,
            },
            "network": self._network(time),
            "fs": _disk(disk, time),
            "runtime": {"imageFs": _disk(self._images(disk), time)},
            "rlimit": {"time": time, "maxpid": most, "curproc": running},
        }

    def _cpu(self, now: float) -> JsonObject:
        used = self._machine.cpu()
        before, self._cpu_before = self._cpu_before, (now, used)
        # No rate if the wall clock was set back since: a negative one would mislead autoscalers.
        cores = (used - before[1]) / (now - before[0]) if before and now > before[0] else None
        return _cpu(now, used, cores)

    def _network(self, time: str) -> JsonObject:
        links = [
            {
                "name": each.name,
                "rxBytes": each.received,
                "rxErrors": each.receive_errors,
                "txBytes": each.transmitted,
                "txErrors": each.transmit_errors,
            }
            for each in self._machine.links()
        ]
        main = next((each for each in links if each["name"] == "eth0"), links[0] if links else {})
        return {"time": time, **main, "interfaces": links}

    def _images(self, disk: FileSystem) -> FileSystem:
        try:
            return file_system(self._image_root() or self._root)
        except OSError:
            # The path may be missing while the runtime is down: the node's own file system is reported meanwhile.
            return disk


def pod_document(pod: PodMetrics, disk: FileSystem, now: float) -> JsonObject:
    """Return one pod of a summary."""
    document: JsonObject = {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": rfc3339(pod.started),
        "containers": [_container(each, disk, now) for each in pod.containers],
        "ephemeral-storage": {**_disk(disk, rfc3339(now)), "usedBytes": pod.ephemeral, "inodesUsed": pod.inodes},
        "process_stats": {"process_count": pod.processes},
    }
    if pod.whole is not None:
        usage = pod.whole.usage
        document |= _figures(pod.whole)
        network = {"name": "eth0", "rxBytes": usage.received, "txBytes": usage.transmitted}
        document["network"] = {"time": rfc3339(usage.at), **network, "interfaces": [network]}
    if pod.volumes:
        document["volume"] = [_volume(name, usage, now) for name, usage in pod.volumes.items()]
    return document


def _container(container: ContainerMetrics, disk: FileSystem, now: float) -> JsonObject:
    usage = container.measured.usage
    shared = _disk(disk, rfc3339(now))
    return {
        "name": container.name,
        "startTime": rfc3339(container.started),
        **_figures(container.measured),
        "rootfs": {**shared, "usedBytes": usage.disk, "inodesUsed": usage.inodes},
        "logs": {**shared, "usedBytes": container.logs},
    }


def _figures(measured: Measured) -> JsonObject:
    usage = measured.usage
    memory = {
        "time": rfc3339(usage.at),
        "usageBytes": usage.memory_usage,
        "workingSetBytes": usage.memory_working_set,
        "rssBytes": usage.memory_rss,
    }
    return {"cpu": _cpu(usage.at, usage.cpu, measured.cores), "memory": memory}


def _cpu(at: float, used: float, cores: float | None) -> JsonObject:
    found: JsonObject = {"time": rfc3339(at), "usageCoreNanoSeconds": round(used * _NANO)}
    return found if cores is None else {**found, "usageNanoCores": round(cores * _NANO)}


def _disk(disk: FileSystem, time: str) -> JsonObject:
    return {
        "time": time,
        "availableBytes": disk.available,
        "capacityBytes": disk.capacity,
        "usedBytes": disk.used,
        "inodesFree": disk.inodes_free,
        "inodes": disk.inodes,
        "inodesUsed": disk.inodes - disk.inodes_free,
    }


def _volume(name: str, usage: VolumeUsage, now: float) -> JsonObject:
    return {
        "name": name,
        "time": rfc3339(now),
        "availableBytes": usage.available,
        "capacityBytes": usage.capacity,
        "usedBytes": usage.used,
        "inodesFree": usage.inodes_free,
        "inodes": usage.inodes,
        "inodesUsed": usage.inodes_used,
    }


def _family(sample: Sample) -> str:
    """Return the family of a sample: buckets, sum and count of a histogram are one family."""
    name, kind, *_ = sample
    return name.rpartition("_")[0] if kind == "histogram" else name
