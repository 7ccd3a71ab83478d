"""Usage of pods and nodes, and ready instances of Workloads: one sample a minute of the last thirty, in memory.

Charts begin with them: `GET` of a PodMetrics or NodeMetrics with `?history=true` has them beside the current usage, and
`workloads/NAME/history` has the counts of a Workload. A restart of the server loses them, so the answer says since when
there are some. An object takes less than 400 bytes; above `MAX_OBJECTS` of a kind nothing of it is kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from math import isnan, nan
from typing import Final, NamedTuple

import msgspec

from tarmac.api.compute.names import GROUP
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.cooperative import CooperativeRunner, CooperativeWork
from tarmac.base.quantity import Quantity
from tarmac.server.subresources.usagemetrics import UsageSource
from tarmac.store.interface import Entry, Store

INTERVAL: Final = 60.0
SAMPLES: Final = 30
MAX_OBJECTS: Final = 20_000
_FIGURES: Final = 2  # CPU in cores and memory in bytes, or ready and desired instances
_PLACES: Final = SAMPLES + 1  # readers never see the one that is being recorded
_WIDTH: Final = _PLACES * _FIGURES
_UNKNOWN: Final = array("f", [nan] * _WIDTH)
_WORKLOADS: Final = f"{GROUP}/workloads"
_CHUNK: Final = 64  # objects between two points at which recording may be suspended


class _Figures(NamedTuple):
    key: int
    first: float
    second: float


class _Status(msgspec.Struct, rename="camel"):
    ready_replicas: int = 0
    desired_replicas: int = 0


class _Counted(msgspec.Struct):
    """The part of a Workload that is recorded."""

    status: _Status = msgspec.field(default_factory=_Status)


_counted = msgspec.json.Decoder(_Counted).decode


class _Ring:
    """The samples of one kind: a row of figures for each object, in one block."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._position = 0  # of the next sample
        self._figures = array("f")
        self._rows: dict[int, int] = {}
        self._free: list[int] = []

    def record(self, now: float, found: Iterable[_Figures]) -> CooperativeWork[None]:
        """Add a sample of each object. An object without one for the whole time is forgotten."""
        place = self._position
        seen: set[int] = set()
        for number, each in enumerate(found, 1):
            self._put(each, place)
            seen.add(each.key)
            if number % _CHUNK == 0:
                yield
        for number, key in enumerate(self._rows.keys() - seen, 1):
            self._miss(key, place)
            if number % _CHUNK == 0:
                yield
        # Last, and together: readers between two turns see the samples up to the one before.
        self._position, self._times = (place + 1) % _PLACES, [*self._times, now][-SAMPLES:]

    def of(self, key: int) -> Iterator[tuple[float, float, float]]:
        """Yield time and both figures of an object, oldest first."""
        row = self._rows.get(key)
        if row is None:
            return
        first = (self._position - len(self._times)) % _PLACES
        for number, time in enumerate(self._times):
            at = row * _WIDTH + (first + number) % _PLACES * _FIGURES
            if not isnan(self._figures[at]):
                yield time, self._figures[at], self._figures[at + 1]

    def _put(self, found: _Figures, place: int) -> None:
        row = self._rows.get(found.key)
        if row is None:
            row = self._rows[found.key] = self._new_row()
        at = row * _WIDTH + place * _FIGURES
        self._figures[at], self._figures[at + 1] = found.first, found.second

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        self._figures.extend(_UNKNOWN)
        return len(self._figures) // _WIDTH - 1

    def _miss(self, key: int, place: int) -> None:
        row = self._rows[key]
        begin = row * _WIDTH
        # The place still holds the sample of half an hour ago: without this it would show as the newest one.
        self._figures[begin + place * _FIGURES] = nan
        if all(isnan(self._figures[at]) for at in range(begin, begin + _WIDTH, _FIGURES)):
            del self._rows[key]
            self._free.append(row)


class UsageHistory:
    """Records the figures of a source of usage, and the counts of the Workloads in the store."""

    def __init__(self, source: UsageSource, store: Store, clock: Clock) -> None:
        self._source = source
        self._store = store
        self._clock = clock
        self._runner = CooperativeRunner(clock)
        self._since = clock.now()
        self._pods, self._nodes, self._workloads = _Ring(), _Ring(), _Ring()

    async def run(self) -> None:
        """Record periodically until cancelled."""
        while True:
            await self.record()
            await self._clock.sleep(INTERVAL)

    async def record(self) -> None:
        """Record once. Above `MAX_OBJECTS` of a kind all of its samples are forgotten."""
        pods, nodes = await _of(self._source.pods()), await _of(self._source.nodes())
        if len(pods) > MAX_OBJECTS:
            self._pods, pods = _Ring(), []
        workloads = self._store.list(_WORKLOADS).entries
        if len(workloads) > MAX_OBJECTS:
            self._workloads, workloads = _Ring(), []
        await self._runner.done(self._pods.record(self._clock.now(), map(_pod, pods)))
        await self._runner.done(self._nodes.record(self._clock.now(), map(_node, nodes)))
        await self._runner.done(self._workloads.record(self._clock.now(), map(_workload, workloads)))

    def shown(self, name: str, namespace: str = "") -> JsonObject:
        """Return the samples of a pod, or without a namespace of a node, as in the API."""
        ring = self._pods if namespace else self._nodes
        samples = [
            {"timestamp": rfc3339(time), "usage": {"cpu": f"{round(cores * 1000)}m", "memory": f"{round(memory)}"}}
            for time, cores, memory in ring.of(hash((namespace, name)))
        ]
        return self._answer(samples)

    def ready(self, namespace: str, name: str) -> JsonObject:
        """Return the samples of a Workload, as in the API."""
        found = self._workloads.of(hash(f"{namespace}/{name}"))
        return self._answer(
            [
                {"timestamp": rfc3339(time), "ready": round(ready), "desired": round(desired)}
                for time, ready, desired in found
            ]
        )

    def _answer(self, samples: list[JsonObject]) -> JsonObject:
        return {"since": rfc3339(self._since), "interval": f"{INTERVAL:g}s", "samples": samples}


# Rows are found by the hash of a name, since names would take a third of the memory. 64 bits: no two of 20,000 names
# collide.


def _pod(metrics: JsonObject) -> _Figures:
    cores = memory = 0.0
    for container in metrics["containers"]:
        own = _used(0, container["usage"])
        cores, memory = cores + own.first, memory + own.second
    metadata = metrics["metadata"]
    return _Figures(hash((metadata["namespace"], metadata["name"])), cores, memory)


def _node(metrics: JsonObject) -> _Figures:
    return _used(hash(("", metrics["metadata"]["name"])), metrics["usage"])


def _workload(entry: Entry) -> _Figures:
    status = _counted(entry.raw).status
    return _Figures(hash(entry.name), status.ready_replicas, status.desired_replicas)


def _used(key: int, usage: JsonObject) -> _Figures:
    return _Figures(key, Quantity.parse(usage["cpu"]).milli() / 1000, float(Quantity.parse(usage["memory"]).value()))


async def _of(usage: Sequence[JsonObject] | Awaitable[Sequence[JsonObject]]) -> Sequence[JsonObject]:
    return usage if isinstance(usage, Sequence) else await usage
