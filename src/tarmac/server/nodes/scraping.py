"""What nodes and pods use, asked of the nodes every so often and held in memory: the source of `metrics.k8s.io`.

Processor time and traffic are counters: a rate is the difference of two scrapes, so what is new has none before the
second. A counter that went back (a restarted container) begins anew. A node that has not been heard of for `STALE`
seconds is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.duration import format_duration
from tarmac.base.log import log
from tarmac.http.clientrequest import ConnectionBroken
from tarmac.server.nodes.exposition import Sample, samples
from tarmac.server.nodes.nodeendpoints import Way, Ways
from tarmac.server.nodes.proxying import reach
from tarmac.server.reader import Reader

PERIOD = 15.0
STALE = 4 * PERIOD
_ANSWER_SECONDS = 10.0
_AT_ONCE = 16
_LARGEST = 16 * 1024 * 1024
_NETWORK = {
    "pod_network_receive_bytes_total": "network_receive_bytes_per_second",
    "pod_network_transmit_bytes_total": "network_transmit_bytes_per_second",
}
_COUNTERS = frozenset({"node_cpu_usage_seconds_total", "container_cpu_usage_seconds_total", *_NETWORK})
_GAUGES = frozenset({"node_memory_working_set_bytes", "container_memory_working_set_bytes"})

_log = log("metering")
Key = tuple[str, str, str, str]
"""Name, namespace, pod, container."""


@dataclass(slots=True)
class _Rate:
    """A counter's last measurement, and how fast it grew before."""

    last: Sample
    per_second: float | None = None
    window: float = 0.0


@dataclass(slots=True)
class _Node:
    """What one node told."""

    heard: float = 0.0  # monotonic
    rates: dict[Key, _Rate] = field(default_factory=dict[Key, _Rate])
    gauges: dict[Key, Sample] = field(default_factory=dict[Key, Sample])

    def take(self, told: Iterable[Sample], now: float) -> None:
        """One more scrape; what it does not mention is gone."""
        rates: dict[Key, _Rate] = {}
        self.gauges = {}
        for sample in told:
            key = sample[:4]
            if sample.name in _COUNTERS:
                rates[key] = _grown(self.rates.get(key), sample)
            elif sample.name in _GAUGES:
                self.gauges[key] = sample
        self.rates, self.heard = rates, now

    def containers(self) -> dict[tuple[str, str], list[str]]:
        """Names of containers with all figures, by pod."""
        found: dict[tuple[str, str], list[str]] = {}
        for (name, namespace, pod, container), rate in self.rates.items():
            known = ("container_memory_working_set_bytes", namespace, pod, container) in self.gauges
            if name == "container_cpu_usage_seconds_total" and rate.per_second is not None and known:
                found.setdefault((namespace, pod), []).append(container)
        return found


def _grown(before: _Rate | None, sample: Sample) -> _Rate:
    if before is None or sample.value < before.last.value:
        return _Rate(sample)
    window = sample.at - before.last.at
    if window <= 0:  # measured at the same moment: nothing new
        return before
    return _Rate(sample, (sample.value - before.last.value) / window, window)


class Scraper:
    """Implements `subresources.metrics.UsageSource`."""

    def __init__(self, reader: Reader, ways: Ways, clock: Clock) -> None:
        self._reader = reader
        self._ways = ways
        self._clock = clock
        self._nodes: dict[str, _Node] = {}

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.scrape()
            await self._clock.sleep(PERIOD)

    async def scrape(self) -> None:
        """Ask every node once."""
        turn = asyncio.Semaphore(_AT_ONCE)
        known = [entry.name for entry in self._reader.store.list("core/nodes").entries]
        self._nodes = {name: node for name, node in self._nodes.items() if name in known}

        async def one(name: str, way: Way) -> None:
            async with turn:
                await self._scrape(name, way)

        reachable = [(name, way) for name in known if (way := self._ways.find(name)) is not None]
        await asyncio.gather(*(one(name, way) for name, way in reachable))

    async def _scrape(self, name: str, way: Way) -> None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                reply = await reach(way, "GET", "/metrics/resource", [("Connection", "close")])
                text = (await reply.read(_LARGEST)).decode(errors="replace")
        except (ApiError, ConnectionBroken, OSError) as error:
            _log.debug("node not scraped", node=name, error=str(error))
            return
        if reply.status == 200:
            node = self._nodes.setdefault(name, _Node())
            node.take(samples(text, self._clock.now()), self._clock.monotonic())

    # As objects.

    def _fresh(self) -> list[tuple[str, _Node]]:
        oldest = self._clock.monotonic() - STALE
        return [(name, node) for name, node in self._nodes.items() if node.heard >= oldest]

    def nodes(self) -> Sequence[JsonObject]:
        """NodeMetrics of those that were heard of."""
        shown: list[JsonObject] = []
        for name, node in self._fresh():
            rate = node.rates.get(("node_cpu_usage_seconds_total", "", "", ""))
            memory = node.gauges.get(("node_memory_working_set_bytes", "", "", ""))
            known = self._reader.get("core/nodes", name)
            if rate is not None and rate.per_second is not None and memory is not None and known is not None:
                usage = _usage(rate.per_second, memory.value)
                shown.append(_object("NodeMetrics", known, rate) | {"usage": usage})
        return shown

    def pods(self) -> Sequence[JsonObject]:
        """PodMetrics of the pods of those nodes."""
        shown: list[JsonObject] = []
        for _, node in self._fresh():
            for (namespace, name), containers in node.containers().items():
                known = self._reader.get("core/pods", f"{namespace}/{name}")
                if known is not None:
                    shown.append(_pod(node, known, sorted(containers)))
        return shown


def _pod(node: _Node, pod: JsonObject, containers: list[str]) -> JsonObject:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    rates = [node.rates["container_cpu_usage_seconds_total", namespace, name, each] for each in containers]
    shown: list[JsonObject] = []
    for container, rate in zip(containers, rates, strict=True):
        memory = node.gauges["container_memory_working_set_bytes", namespace, name, container]
        shown.append({"name": container, "usage": _usage(rate.per_second or 0.0, memory.value)})
    # PodMetrics has figures of containers only; the network is the pod's, so the first one tells of it.
    for counter, figure in _NETWORK.items():
        traffic = node.rates.get((counter, namespace, name, ""))
        if traffic is not None and traffic.per_second is not None:
            shown[0]["usage"][figure] = f"{round(traffic.per_second)}"
    return _object("PodMetrics", pod, rates[0]) | {"containers": shown}


def _object(kind: str, of: JsonObject, rate: _Rate) -> JsonObject:
    metadata = {name: of["metadata"][name] for name in ("name", "namespace", "labels") if of["metadata"].get(name)}
    return {
        "kind": kind,
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {**metadata, "creationTimestamp": rfc3339(rate.last.at)},
        "timestamp": rfc3339(rate.last.at),
        "window": format_duration(round(rate.window, 3)),
    }


def _usage(cores: float, memory: float) -> JsonObject:
    return {"cpu": f"{round(cores * 1e9)}n", "memory": f"{round(memory / 1024)}Ki"}
