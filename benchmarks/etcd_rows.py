"""What a server costs on etcd: its own CPU, and etcd's share apart.

With the real kube-apiserver both run at the same time, each on an etcd of the same kind, and take turns, so that a busy
moment of the machine hits both. A server that nobody asks is measured first, beside the same etcd before it started.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from benchmarks import scenarios, subjects
from benchmarks.processes import cpu_seconds
from benchmarks.report import Row
from benchmarks.scenarios import CONFIG_MAPS, METADATA, TABLE, Cost
from benchmarks.subjects import Subject
from tests.support.etcd import EtcdCluster, find_etcd, find_peer_etcd
from tests.support.tarmac_process import TarmacProcess

_NAMESPACE, _LISTED = "bench-etcd", "bench-etcd-list"
_IDLE_SECONDS = 20.0
_NULL_HANDLER_US = 12.0  # on the machine that promises are made for


@dataclass(frozen=True)
class _Load:
    """One kind of request. The promises are about CPU with etcd's share, and about ratios to the real thing."""

    what: str
    requests: int
    run: Callable[[Subject, int, int], Awaitable[Cost]]  # run and number of requests
    most_us: float | None = None
    ratio: float | None = None
    rate_ratio: float | None = None


_LOADS = (
    _Load("create 1 KB, 64 clients", 3000, lambda s, run, n: scenarios.create(s, _NAMESPACE, f"c{run}", n, 64), 350,
          rate_ratio=1.5),
    _Load("PUT 1 KB, 16 clients", 2000, lambda s, run, n: scenarios.update(s, _NAMESPACE, f"c{run}", n, 16), ratio=2),
    _Load("create 1 KB, 1 client", 300, lambda s, run, n: scenarios.create(s, _NAMESPACE, f"o{run}", n, 1)),
    _Load("create a Pod, 16 clients", 1000, lambda s, run, n: scenarios.create_pods(s, _NAMESPACE, f"p{run}", n, 16)),
    _Load("bind a Pod, 16 clients", 1000, lambda s, run, n: scenarios.bind_pods(s, _NAMESPACE, f"p{run}", n, 16),
          ratio=2),
    _Load("GET one object, 32 connections", 5000, lambda s, _, n: scenarios.get(s, _ONE, n, 32)),
    _Load("GET one object, 1 connection", 500, lambda s, _, n: scenarios.get(s, _ONE, n, 1)),
    _Load("LIST 5,000 objects", 3, lambda s, _, n: _list(s, n)),
    _Load("LIST 5,000 as a Table", 3, lambda s, _, n: _list(s, n, TABLE)),
    _Load("LIST 5,000 as metadata", 3, lambda s, _, n: _list(s, n, METADATA)),
)  # fmt: skip
_ONE = CONFIG_MAPS.format(_NAMESPACE) + "/warm-1"


@dataclass
class _Found:
    """Of one load, run by run."""

    server_us: list[float] = field(default_factory=list[float])
    etcd_us: list[float] = field(default_factory=list[float])
    rate: list[float] = field(default_factory=list[float])

    @property
    def both(self) -> list[float]:
        return [server + etcd for server, etcd in zip(self.server_us, self.etcd_us, strict=True)]


_Results = dict[str, _Found]


def etcd_rows(directory: Path, repeat: int, with_peer: bool, say: Callable[[str], None]) -> Iterator[Row]:
    """Measure, then tell."""
    binary = find_peer_etcd() or find_etcd()
    assert binary is not None, "no etcd: run python -m tools.fetch_etcd"
    with ExitStack() as stack:
        folder = directory / "on-etcd"
        (folder / "etcd").mkdir(parents=True)
        cluster = EtcdCluster(binary, folder / "etcd")
        stack.callback(cluster.stop)
        cluster.start()
        say("measuring an idle etcd, and an idle server on it")
        alone = uvloop.run(_idle((cluster.pid(),)))[0]
        process = stack.enter_context(
            TarmacProcess(folder / "data", "--store", f"etcd://{cluster.endpoints[0]}?compact=0")
        )
        own = Subject("tarmac", process.url, process.client_context(), (process.pid,))
        idle_server, idle_etcd = uvloop.run(_idle((process.pid, cluster.pid())))
        floor = uvloop.run(scenarios.get(stack.enter_context(subjects.null_handler(folder)), "/")).cpu_us
        peer = stack.enter_context(subjects.kubernetes()) if with_peer else None
        say("measuring tarmac on etcd" + (", and kube-apiserver in turn" if peer else ""))
        found, theirs = uvloop.run(_measure(own, cluster.pid(), peer, repeat))
    yield Row("on etcd: idle server", "CPU-ms/s", [idle_server], 2)
    yield Row("on etcd: etcd below an idle server, above etcd alone", "CPU-ms/s", [idle_etcd - alone], 0.5)
    yield from _rows(found, theirs, max(1.0, floor / _NULL_HANDLER_US))


def _rows(found: _Results, theirs: _Results, slow: float) -> Iterator[Row]:
    ratios: list[float] = []
    for load in _LOADS:
        own, other = found[load.what], theirs.get(load.what, _Found())
        what = f"on etcd: {load.what}"
        most = load.most_us * slow if load.most_us is not None else None
        yield Row(what, "CPU-µs", own.both, most, peer=other.both)
        yield Row(f"{what}, etcd's share", "CPU-µs", own.etcd_us)
        yield Row(what, "req/s", own.rate, peer=other.rate)
        if not other.both:
            continue
        ratios.append(statistics.median(other.both) / statistics.median(own.both))
        if load.ratio is not None:
            yield Row(f"{what}, kube-apiserver's CPU over ours", "times", ratios[-1:], load.ratio, at_least=True)
        if load.rate_ratio is not None:
            rate = statistics.median(own.rate) / statistics.median(other.rate)
            yield Row(f"{what}, our rate over kube-apiserver's", "times", [rate], load.rate_ratio, at_least=True)
    if ratios:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
        yield Row("on etcd: kube-apiserver's CPU over ours, geometric mean of these", "times", [mean], 5, at_least=True)


async def _measure(own: Subject, etcd: int, peer: Subject | None, repeat: int) -> tuple[_Results, _Results]:
    found: _Results = {load.what: _Found() for load in _LOADS}
    theirs: _Results = {load.what: _Found() for load in _LOADS if peer is not None}
    turns = [(own, found, etcd), *([(peer, theirs, None)] if peer is not None else [])]
    for subject, _, _ in turns:
        await scenarios.make_namespace(subject, _NAMESPACE)
        await scenarios.create(subject, _NAMESPACE, "warm", 300, 16)
        await scenarios.make_namespace(subject, _LISTED)
        await scenarios.create(subject, _LISTED, "item", 5000, 32, size=1250)
    for run in range(repeat):
        for load in _LOADS:
            for subject, into, beside in turns:
                await _one(subject, load, run, into[load.what], beside)
    return found, theirs


async def _one(subject: Subject, load: _Load, run: int, into: _Found, etcd: int | None) -> None:
    """The peer's etcd is among its processes already."""
    before = cpu_seconds([etcd]) if etcd is not None else 0.0
    cost = await load.run(subject, run, load.requests)
    into.server_us.append(cost.cpu_us)
    into.etcd_us.append((cpu_seconds([etcd]) - before) / load.requests * 1e6 if etcd is not None else 0.0)
    into.rate.append(cost.rate)


async def _list(subject: Subject, times: int, accept: str = "application/json") -> Cost:
    cpu_ms, wall_ms, _ = await scenarios.list_all(subject, _LISTED, times, accept=accept)
    return Cost(cpu_ms * 1e3, 1e3 / wall_ms, wall_ms, wall_ms)


async def _idle(pids: tuple[int, ...]) -> list[float]:
    """CPU milliseconds a second of each, while nobody asks for anything."""
    await asyncio.sleep(3)  # starting is over
    before = [cpu_seconds([pid]) for pid in pids]
    await asyncio.sleep(_IDLE_SECONDS)
    return [(cpu_seconds([pid]) - was) / _IDLE_SECONDS * 1e3 for pid, was in zip(pids, before, strict=True)]
