"""CPU and memory of pods and nodes over the last thirty minutes, one value a minute, in memory.

Charts begin with them: `GET` of a PodMetrics or NodeMetrics with `?history=true` has them beside the current usage. A
restart of the server loses them, so the answer says since when there are some. A pod takes less than 400 bytes; above
`MAX_OBJECTS` pods nothing is kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from math import isnan, nan
from typing import Final, NamedTuple

from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.cooperative import CooperativeRunner, CooperativeWork
from tarmac.base.quantity import Quantity
from tarmac.server.subresources.usagemetrics import UsageSource

INTERVAL: Final = 60.0
SAMPLES: Final = 30
MAX_OBJECTS: Final = 20_000
_FIGURES: Final = 2  # CPU in cores, memory in bytes
_PLACES: Final = SAMPLES + 1  # readers never see the one that is being recorded
_WIDTH: Final = _PLACES * _FIGURES
_UNKNOWN: Final = array("f", [nan] * _WIDTH)
_CHUNK: Final = 64  # objects between two points at which recording may be suspended


class _Used(NamedTuple):
    key: int
    cores: float
    memory: float


class _Ring:
    """The samples of one kind: a row of figures for each object, in one block."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._position = 0  # of the next sample
        self._figures = array("f")
        self._rows: dict[int, int] = {}
        self._free: list[int] = []

    def record(self, now: float, used: Iterable[_Used]) -> CooperativeWork[None]:
        """Add a sample of each object. An object without one for the whole time is forgotten."""
        place = self._position
        seen: set[int] = set()
        for number, each in enumerate(used, 1):
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
        """Yield time, cores and bytes of memory of an object, oldest first."""
        row = self._rows.get(key)
        if row is None:
            return
        first = (self._position - len(self._times)) % _PLACES
        for number, time in enumerate(self._times):
            at = row * _WIDTH + (first + number) % _PLACES * _FIGURES
            if not isnan(self._figures[at]):
                yield time, self._figures[at], self._figures[at + 1]

    def _put(self, used: _Used, place: int) -> None:
        row = self._rows.get(used.key)
        if row is None:
            row = self._rows[used.key] = self._new_row()
        at = row * _WIDTH + place * _FIGURES
        self._figures[at], self._figures[at + 1] = used.cores, used.memory

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
    """Records what a source of usage says."""

    def __init__(self, source: UsageSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._runner = CooperativeRunner(clock)
        self._since = clock.now()
        self._pods, self._nodes = _Ring(), _Ring()

    async def run(self) -> None:
        """Record periodically until cancelled."""
        while True:
            await self.record()
            await self._clock.sleep(INTERVAL)

    async def record(self) -> None:
        """Record once. Above `MAX_OBJECTS` pods all of theirs are forgotten."""
        pods, nodes = await _of(self._source.pods()), await _of(self._source.nodes())
        if len(pods) > MAX_OBJECTS:
            self._pods, pods = _Ring(), []
        await self._runner.done(self._pods.record(self._clock.now(), map(_pod, pods)))
        await self._runner.done(self._nodes.record(self._clock.now(), map(_node, nodes)))

    def shown(self, name: str, namespace: str = "") -> JsonObject:
        """Return the samples of a pod, or without a namespace of a node, as in the API."""
        ring = self._pods if namespace else self._nodes
        samples = [
            {"timestamp": rfc3339(time), "usage": {"cpu": f"{round(cores * 1000)}m", "memory": f"{round(memory)}"}}
            for time, cores, memory in ring.of(_key(namespace, name))
        ]
        return {"since": rfc3339(self._since), "interval": f"{INTERVAL:g}s", "samples": samples}


def _key(namespace: str, name: str) -> int:
    # The hash, since names would take a third of the memory. 64 bits: of 20,000 names no two are the same.
    return hash((namespace, name))


def _pod(metrics: JsonObject) -> _Used:
    cores = memory = 0.0
    for container in metrics["containers"]:
        own = _used(0, container["usage"])
        cores, memory = cores + own.cores, memory + own.memory
    metadata = metrics["metadata"]
    return _Used(_key(metadata["namespace"], metadata["name"]), cores, memory)


def _node(metrics: JsonObject) -> _Used:
    return _used(_key("", metrics["metadata"]["name"]), metrics["usage"])


def _used(key: int, usage: JsonObject) -> _Used:
    return _Used(key, Quantity.parse(usage["cpu"]).milli() / 1000, float(Quantity.parse(usage["memory"]).value()))


async def _of(usage: Sequence[JsonObject] | Awaitable[Sequence[JsonObject]]) -> Sequence[JsonObject]:
    return usage if isinstance(usage, Sequence) else await usage
