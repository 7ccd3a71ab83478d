"""Scrapes resource usage from the nodes periodically and keeps it in memory: the source of `metrics.k8s.io`.

CPU time and traffic are counters: a rate is the difference of two scrapes, so a new counter has none before its second
scrape. A counter that decreased (a restarted container) starts over. A node without a successful scrape for `MAX_AGE`
seconds is omitted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.cooperative import CooperativeRunner, CooperativeWork
from tarmac.base.duration import format_duration
from tarmac.base.log import log
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.server.nodes.nodeendpoints import NodeRoute, NodeRoutes
from tarmac.server.nodes.proxying import send
from tarmac.server.reader import Reader

SCRAPE_INTERVAL = 15.0
MAX_AGE = 4 * SCRAPE_INTERVAL
_SCRAPE_TIMEOUT = 10.0
_MAX_CONCURRENT = 16
_MAX_RESPONSE = 4 * 1024 * 1024
_MAX_SAMPLES = 20_000  # per node; it has at most hundreds of pods, with a few samples each
_LINES_PER_CHUNK = 100  # lines of a response between two points at which parsing may be suspended
_PODS_PER_CHUNK = 16  # pods of a node between two points at which their metrics may be suspended
_NETWORK = {
    "pod_network_receive_bytes_total": "network_receive_bytes_per_second",
    "pod_network_transmit_bytes_total": "network_transmit_bytes_per_second",
}
_COUNTERS = frozenset({"node_cpu_usage_seconds_total", "container_cpu_usage_seconds_total", *_NETWORK})
_FASTEST = {"node_cpu_usage_seconds_total": 1e6, "container_cpu_usage_seconds_total": 1e6}  # cores
_FASTEST_OTHERS = 1e15
_GAUGES = frozenset({"node_memory_working_set_bytes", "container_memory_working_set_bytes"})

_log = log("metering")
Key = tuple[str, str, str, str]
"""Name, namespace, pod, container."""

_LINE = re.compile(r"([a-z_]+)(?:\{([^}]*)\})? ([0-9.eE+-]+)(?: ([0-9]{1,15}))?")
_LABEL = re.compile(r'([a-z_]+)="([^"\\]*)"')

_MAX_LINE = 4096  # characters of a line
_MAX_VALUE = 1e18
_MAX_SKEW = 3600.0  # seconds between a node's clock and the server's


# Parses `/metrics/resource`: only the known samples of Prometheus' text format.


class ScrapedSample(NamedTuple):
    """One sample. `at` is the time of measurement in Unix seconds."""

    name: str
    namespace: str
    pod: str
    container: str
    value: float
    at: float


def samples(text: str, now: float, names: Container[str]) -> Iterator[ScrapedSample | None]:
    """Yield a sample for every line with one of these names, and None for every other line.

    `now` is the time of samples without a timestamp. A node may send megabytes of lines: the caller yields to the event
    loop between them. The text is not split at once.
    """
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield _read(text[start:end], now, names) if end - start <= _MAX_LINE else None
        start = end + 1


def _read(line: str, now: float, names: Container[str]) -> ScrapedSample | None:
    match = _LINE.fullmatch(line.rstrip("\r"))
    if match is None or match[1] not in names:
        return None
    try:
        value = float(match[3])
    except ValueError:
        return None
    at = int(match[4]) / 1000 if match[4] else now
    # Reject extreme numbers and times: they would fail in the response that shows them with those of all other nodes.
    if not 0 <= value <= _MAX_VALUE or abs(at - now) > _MAX_SKEW:
        return None
    get = dict(_LABEL.findall(match[2] or "")).get
    return ScrapedSample(match[1], get("namespace", ""), get("pod", ""), get("container", ""), value, at)


@dataclass(slots=True)
class _Rate:
    """A counter's last sample, and its rate before that."""

    last: ScrapedSample
    per_second: float | None = None
    window: float = 0.0


@dataclass(slots=True)
class _Node:
    """The last scrape of one node."""

    heard: float = 0.0  # monotonic
    rates: dict[Key, _Rate] = field(default_factory=dict[Key, _Rate])
    gauges: dict[Key, ScrapedSample] = field(default_factory=dict[Key, ScrapedSample])

    def take(self, told: Iterable[ScrapedSample | None], now: float) -> CooperativeWork[None]:
        """Replace the last scrape by this one. Readers see the last scrape until this one is complete."""
        rates: dict[Key, _Rate] = {}
        gauges: dict[Key, ScrapedSample] = {}
        for number, sample in enumerate(told, 1):
            if sample is not None and sample.name in _COUNTERS:
                rates[sample[:4]] = _grown(self.rates.get(sample[:4]), sample)
            elif sample is not None:
                gauges[sample[:4]] = sample
            # A hostile node may name endless containers: memory is bounded per node, and the rest is ignored.
            if len(rates) + len(gauges) >= _MAX_SAMPLES:
                break
            if number % _LINES_PER_CHUNK == 0:
                yield
        # Together, after the last yield: a reader between two of them would pair rates with gauges of another scrape.
        self.rates, self.gauges, self.heard = rates, gauges, now

    def containers(self) -> CooperativeWork[dict[tuple[str, str], list[str]]]:
        """Return the names of containers with all metrics, by pod."""
        found: dict[tuple[str, str], list[str]] = {}
        for number, ((name, namespace, pod, container), rate) in enumerate(self.rates.items(), 1):
            known = ("container_memory_working_set_bytes", namespace, pod, container) in self.gauges
            if name == "container_cpu_usage_seconds_total" and rate.per_second is not None and known:
                found.setdefault((namespace, pod), []).append(container)
            if number % _LINES_PER_CHUNK == 0:
                yield
        return found


def _grown(before: _Rate | None, sample: ScrapedSample) -> _Rate:
    # The counter was reset by a restart of the node or the container: a difference would be negative.
    if before is None or sample.value < before.last.value:
        return _Rate(sample)
    window = sample.at - before.last.at
    if window <= 0:  # same timestamp: no new measurement
        return before
    rate = (sample.value - before.last.value) / window
    return _Rate(sample, rate, window) if rate <= _FASTEST.get(sample.name, _FASTEST_OTHERS) else _Rate(sample)


class Scraper:
    """Implements `subresources.metrics.UsageSource`."""

    def __init__(self, reader: Reader, routes: NodeRoutes, clock: Clock) -> None:
        self._reader = reader
        self._routes = routes
        self._clock = clock
        self._runner = CooperativeRunner(clock)
        self._nodes: dict[str, _Node] = {}

    async def run(self) -> None:
        """Scrape periodically until cancelled."""
        while True:
            await self.scrape()
            await self._clock.sleep(SCRAPE_INTERVAL)

    async def scrape(self) -> None:
        """Scrape every node once, a few at a time. Lookups and parsing run cooperatively."""
        known = dict.fromkeys(entry.name for entry in self._reader.store.list("core/nodes").entries)
        # Removed here, not when the Node goes: its last figures would stay in the metrics for ever.
        self._nodes = {name: node for name, node in self._nodes.items() if name in known}
        # One iterator for all tasks: each takes the next node, so a silent one delays only its own task.
        waiting = iter(await self._runner.done(self._reachable(known)))
        async with asyncio.TaskGroup() as group:
            for _ in range(_MAX_CONCURRENT):
                group.create_task(self._work(waiting))

    def _reachable(self, names: Iterable[str]) -> CooperativeWork[list[tuple[str, NodeRoute]]]:
        found: list[tuple[str, NodeRoute]] = []
        for name in names:
            route = self._routes.find(name)
            if route is not None:
                found.append((name, route))
            yield
        return found

    async def _work(self, waiting: Iterator[tuple[str, NodeRoute]]) -> None:
        for name, route in waiting:
            await self._scrape(name, route)

    async def _scrape(self, name: str, route: NodeRoute) -> None:
        try:
            async with asyncio.timeout(_SCRAPE_TIMEOUT):
                reply = await send(route, "GET", "/metrics/resource", [("Connection", "close")])
                text = (await reply.read(_MAX_RESPONSE)).decode(errors="replace")
        except (ApiError, ConnectionBroken, OSError) as error:
            _log.debug("node scrape failed", node=name, error=str(error))
            return
        if reply.status == 200:
            # Only after a response: a node that never answers has no entry, and so no stale figures.
            node = self._nodes.setdefault(name, _Node())
            told = samples(text, self._clock.now(), _COUNTERS | _GAUGES)
            await self._runner.done(node.take(told, self._clock.monotonic()))

    # API objects

    def _fresh(self) -> list[tuple[str, _Node]]:
        oldest = self._clock.monotonic() - MAX_AGE
        return [(name, node) for name, node in self._nodes.items() if node.heard >= oldest]

    def nodes(self) -> Sequence[JsonObject]:
        """Return the NodeMetrics of recently scraped nodes."""
        shown: list[JsonObject] = []
        for name, node in self._fresh():
            rate = node.rates.get(("node_cpu_usage_seconds_total", "", "", ""))
            memory = node.gauges.get(("node_memory_working_set_bytes", "", "", ""))
            known = self._reader.get("core/nodes", name)
            if rate is not None and rate.per_second is not None and memory is not None and known is not None:
                usage = _usage(rate.per_second, memory.value)
                shown.append(_object("NodeMetrics", known, rate) | {"usage": usage})
        return shown

    def pods(self) -> Sequence[JsonObject] | Awaitable[Sequence[JsonObject]]:
        """Return the PodMetrics of recently scraped nodes; an awaitable if that takes several turns of the loop.

        A node is trusted for its own pods only, because autoscalers act on the metrics.
        """
        return self._runner.run(self._of_pods(), lambda shown: shown)

    def _of_pods(self) -> CooperativeWork[list[JsonObject]]:
        shown: list[JsonObject] = []
        for node_name, latest in self._fresh():
            node = replace(latest)  # a scrape that ends meanwhile replaces the figures of `latest`
            for number, ((namespace, name), containers) in enumerate((yield from node.containers()).items(), 1):
                known = self._reader.get("core/pods", f"{namespace}/{name}")
                # A hostile node could otherwise report usage of foreign pods, and have their HorizontalPodAutoscalers
                # scale them.
                if known is not None and known["spec"].get("nodeName") == node_name:
                    shown.append(_pod(node, known, sorted(containers)))
                if number % _PODS_PER_CHUNK == 0:
                    yield
            yield
        return shown


def _pod(node: _Node, pod: JsonObject, containers: list[str]) -> JsonObject:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    rates = [node.rates["container_cpu_usage_seconds_total", namespace, name, each] for each in containers]
    shown: list[JsonObject] = []
    for container, rate in zip(containers, rates, strict=True):
        memory = node.gauges["container_memory_working_set_bytes", namespace, name, container]
        shown.append({"name": container, "usage": _usage(rate.per_second or 0.0, memory.value)})
    # PodMetrics has only container metrics; traffic belongs to the pod, so it is reported on the first container.
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
