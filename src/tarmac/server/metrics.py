"""Server metrics under Kubernetes' names, counted as plain integers and rendered at scrape time.

The request path does one dictionary lookup and a few additions; labels, cumulative buckets and text are made at scrape
time. A path or resource gets a series of its own only after a request for it was not rejected. Until then it shares one
series with all rejected requests: clients can invent endlessly many names, which must not create endless series.
"""

from __future__ import annotations

import os
import resource as limits
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tarmac.base.metrics import Family, Histogram, Sample, labels_text
from tarmac.server.requestinfo import RequestInfo

_SECONDS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
_STORE_SECONDS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_VERBS = {"create": "POST", "update": "PUT"}
_NOTHING = RequestInfo("other", "")


class _Series:
    """Counters of one kind of request."""

    __slots__ = ("codes", "durations", "labels")

    def __init__(self, labels: list[tuple[str, str]]) -> None:
        self.labels = labels
        self.codes: dict[int, int] = {}
        self.durations = Histogram(_SECONDS)


class Metrics:
    """All counters of one server. Gauges are called at scrape time."""

    def __init__(self) -> None:
        self._refused = _Series(_labels(_NOTHING))
        self._series: dict[tuple[object, ...], _Series] = {("other",): self._refused}
        self._running: dict[tuple[object, ...], tuple[list[tuple[str, str]], list[int]]] = {}
        self._store: dict[str, Histogram] = {}
        self.reading = 0  # requests in flight
        self.writing = 0
        self._gauges: list[Callable[[], Iterable[Family]]] = []

    def register(self, *gauges: Callable[[], Iterable[Family]]) -> None:
        """Add gauges to every scrape."""
        self._gauges += gauges

    @contextmanager
    def registered(self, *gauges: Callable[[], Iterable[Family]]) -> Generator[None]:
        """Add gauges during the block: a different process may report them afterwards."""
        self.register(*gauges)
        try:
            yield
        finally:
            for each in gauges:
                # Also on cancellation: two processes of one server must not both report a figure of the whole host.
                self._gauges.remove(each)

    def finished(self, info: RequestInfo, code: int, seconds: float) -> None:
        """Count one finished request."""
        key = _key(info) if info.is_resource else (info.verb, _family(info.path))
        series = self._series.get(key)
        if series is None:
            # A client needs a successful request for a series of its own; a rejected one shares the common series.
            series = self._refused if _is_refusal(code) else _Series(_labels(info))
            if series is not self._refused:
                self._series[key] = series
        series.codes[code] = series.codes.get(code, 0) + 1
        series.durations.observe(seconds)

    def in_flight(self, reading: bool, change: int) -> None:
        """Count a request that has to wait: +1 at its start, -1 at its end."""
        if reading:
            self.reading += change
        else:
            self.writing += change

    def stream_started(self, info: RequestInfo) -> Callable[[], None]:
        """Count a watch or another long-running response; return the function to call at its end."""
        key = _key(info)
        _, count = self._running.setdefault(key, (_labels(info), [0]))
        count[0] += 1

        def ended() -> None:
            count[0] -= 1

        return ended

    def store_observed(self, operation: str, seconds: float) -> None:
        """Record one store operation; this is the store's `Observer`."""
        histogram = self._store.get(operation)
        if histogram is None:
            histogram = self._store[operation] = Histogram(_STORE_SECONDS)
        histogram.observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the exposition format."""
        return exposition(self.families())

    def families(self) -> Iterator[Family]:
        """Yield all metrics with their current values."""
        name = "apiserver_request_total"
        yield name, "counter", "Requests by verb, resource and code.", self._totals(name)
        name = "apiserver_request_duration_seconds"
        yield name, "histogram", "Time to answer, by verb and resource.", self._durations(name)
        name = "apiserver_longrunning_requests"
        yield name, "gauge", "Watches and other answers without an end.", self._long_running(name)
        name = "apiserver_current_inflight_requests"
        kinds = (("mutating", self.writing), ("readOnly", self.reading))
        yield name, "gauge", "Requests being answered.", [(name, [("request_kind", kind)], n) for kind, n in kinds]
        name = "etcd_request_duration_seconds"
        yield name, "histogram", "Time from accepting a write to its acknowledgement by the store.", self._stores(name)
        for gauge in self._gauges:
            yield from gauge()
        yield from process_metrics()

    def _totals(self, name: str) -> Iterator[Sample]:
        for series in self._series.values():
            for code, count in series.codes.items():
                yield name, [("code", str(code)), *series.labels], count

    def _durations(self, name: str) -> Iterator[Sample]:
        for series in self._series.values():
            yield from series.durations.samples(name, series.labels)

    def _long_running(self, name: str) -> Iterator[Sample]:
        for labels, count in self._running.values():
            yield name, labels, count[0]

    def _stores(self, name: str) -> Iterator[Sample]:
        for operation, histogram in self._store.items():
            yield from histogram.samples(name, [("operation", operation)])


def exposition(families: Iterable[Family]) -> bytes:
    """Render families as text."""
    lines: list[str] = []
    for name, kind, description, samples in families:
        lines += (f"# HELP {name} {description}", f"# TYPE {name} {kind}")
        lines += map(_line, samples)
    return ("\n".join(lines) + "\n").encode()


def _is_refusal(code: int) -> bool:
    # Conflicts and invalid objects come from authorized clients of existing resources: these stay visible by resource.
    return 400 <= code < 500 and code not in (409, 422)


def _family(path: str) -> str:
    """Return the first segment of a path outside the API, so that clients cannot create endless series."""
    return "/" + path.split("/", 2)[1] if path.startswith("/") else path


def _key(info: RequestInfo) -> tuple[object, ...]:
    """Return the parts of a request that its labels show. Two keys with the same labels would give duplicate series."""
    name, verb = info.name, info.verb
    scope = (not name, not (name or info.namespace))
    return (verb, info.group, info.version, info.resource, info.subresource, *scope)


def _labels(info: RequestInfo) -> list[tuple[str, str]]:
    verb = _VERBS.get(info.verb, info.verb.upper())
    if not info.is_resource:
        scope, subresource = "", _family(info.path)
    else:
        scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
        subresource = info.subresource
    return [
        ("component", "apiserver"),
        ("dry_run", ""),
        ("group", info.group),
        ("resource", info.resource),
        ("scope", scope),
        ("subresource", subresource),
        ("verb", verb),
        ("version", info.version),
    ]


def _line(sample: Sample) -> str:
    name, labels, value = sample
    number = str(value) if isinstance(value, int) else f"{value:.17g}"
    return f"{name}{labels_text(labels)} {number}"


def health_metrics(checks: Mapping[str, Callable[[], str | None]]) -> Iterator[Family]:
    """Yield the result of each check of `/readyz`."""
    name = "kubernetes_healthcheck"
    samples = [(name, [("name", each), ("type", "readyz")], int(check() is None)) for each, check in checks.items()]
    yield name, "gauge", "Whether a health check passes (1) or fails (0).", samples


def process_metrics() -> Iterator[Family]:
    """Yield the standard process metrics of Prometheus clients."""
    usage = limits.getrusage(limits.RUSAGE_SELF)
    values: Mapping[str, tuple[str, float]] = {
        "process_cpu_seconds_total": ("counter", usage.ru_utime + usage.ru_stime),
        "process_resident_memory_bytes": ("gauge", _resident()),
        "process_open_fds": ("gauge", len(os.listdir("/proc/self/fd"))),
        "process_start_time_seconds": ("gauge", _started()),
    }
    for name, (kind, value) in values.items():
        yield name, kind, "As in every Prometheus client.", [(name, (), value)]


def _started() -> float:
    """Return the start time of the process: boot time plus its start in ticks since boot."""
    # After the last parenthesis: the program's name, the second field, may hold spaces and parentheses (proc(5)).
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
