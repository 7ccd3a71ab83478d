"""The cost of a server on etcd: its own CPU, and etcd's share apart.

First a server as users run it, with its scheduler and controllers: idle, with its etcd beside an etcd alone, and while
Pods are created and bound, which all of them follow. The comparison with the real kube-apiserver uses a server alone,
as that one is. Both run at the same time, each on an etcd of the same kind, and take turns, so that a busy moment of
the machine affects both.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
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
_IDLE_ROUNDS, _IDLE_SECONDS = 12, 5.0
_NULL_HANDLER_US = 12.0  # on the reference machine of the promises


@dataclass(frozen=True)
class _Load:
    """One kind of request. The promises are about CPU with etcd's share, and about ratios to the real server."""

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
_FOLLOWED = tuple(load for load in _LOADS if "a Pod" in load.what)
_ONE = CONFIG_MAPS.format(_NAMESPACE) + "/warm-1"


@dataclass
class _Found:
    """Results of one load, run by run."""

    server_us: list[float] = field(default_factory=list[float])
    etcd_us: list[float] = field(default_factory=list[float])
    rate: list[float] = field(default_factory=list[float])

    @property
    def both(self) -> list[float]:
        return [server + etcd for server, etcd in zip(self.server_us, self.etcd_us, strict=True)]


_Results = dict[str, _Found]


def etcd_rows(directory: Path, repeat: int, with_peer: bool, say: Callable[[str], None]) -> Iterator[Row]:
    """Measure, then yield the rows."""
    binary = find_peer_etcd() or find_etcd()
    assert binary is not None, "no etcd: run python -m tools.fetch_etcd"
    with ExitStack() as stack:
        folder = directory / "on-etcd"
        (folder / "etcd").mkdir(parents=True)
        cluster = EtcdCluster(binary, folder / "etcd")
        stack.callback(cluster.stop)
        cluster.start()
        say("measuring an idle server, and its etcd with and without it")
        store = f"etcd://{cluster.endpoints[0]}?compact=0"
        with TarmacProcess(folder / "whole", "--store", store) as whole:
            idle_server, idle_etcd = _idle(whole.pid, cluster.pid())
            say("measuring it with all its controllers while Pods are made and bound")
            following, _ = uvloop.run(_measure(_FOLLOWED, _subject(whole), cluster.pid(), None, repeat))
        process = stack.enter_context(
            TarmacProcess(folder / "data", "--store", f"{store}&prefix=/alone", "--controllers", "")
        )
        floor = uvloop.run(scenarios.get(stack.enter_context(subjects.null_handler(folder)), "/")).cpu_us
        peer = stack.enter_context(subjects.kubernetes()) if with_peer else None
        say("measuring tarmac on etcd" + (", and kube-apiserver in turn" if peer else ""))
        found, theirs = uvloop.run(_measure(_LOADS, _subject(process), cluster.pid(), peer, repeat))
    yield Row("on etcd: idle server", "CPU-ms/s", [idle_server], 2)
    yield Row("on etcd: etcd below an idle server, above etcd alone", "CPU-ms/s", [idle_etcd], 0.5)
    yield from _rows(found, theirs, max(1.0, floor / _NULL_HANDLER_US))
    for load in _FOLLOWED:
        yield Row(f"on etcd: {load.what}, followed by all controllers", "CPU-µs", following[load.what].both)


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


def _subject(process: TarmacProcess) -> Subject:
    return Subject("tarmac", process.url, process.client_context(), (process.pid,))


async def _measure(
    loads: Sequence[_Load], own: Subject, etcd: int, peer: Subject | None, repeat: int
) -> tuple[_Results, _Results]:
    found: _Results = {load.what: _Found() for load in loads}
    theirs: _Results = {load.what: _Found() for load in loads if peer is not None}
    turns = [(own, found, etcd), *([(peer, theirs, None)] if peer is not None else [])]
    for subject, _, _ in turns:
        await scenarios.make_namespace(subject, _NAMESPACE)
        await scenarios.create(subject, _NAMESPACE, "warm", 300, 16)
        await scenarios.make_namespace(subject, _LISTED)
        await scenarios.create(subject, _LISTED, "item", 5000, 32, size=1250)
    for run in range(repeat):
        for load in loads:
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


def _idle(server: int, etcd: int) -> tuple[float, float]:
    """Return the CPU milliseconds a second of an idle server, and of its etcd beyond those of an etcd alone.

    An etcd alone uses more in some minutes than in others, so the server is halted every other few seconds: no longer
    than its leases hold.
    """
    time.sleep(3)  # the start is over
    took, beyond = list[float](), list[float]()
    for _ in range(_IDLE_ROUNDS):
        server_ms, with_it = _spent(server, etcd)
        os.kill(server, signal.SIGSTOP)
        try:
            _, without = _spent(server, etcd)
        finally:
            os.kill(server, signal.SIGCONT)
        took.append(server_ms)
        beyond.append(with_it - without)
    return statistics.fmean(took), statistics.fmean(beyond)


def _spent(*pids: int) -> list[float]:
    before = [cpu_seconds([pid]) for pid in pids]
    time.sleep(_IDLE_SECONDS)
    return [(cpu_seconds([pid]) - was) / _IDLE_SECONDS * 1e3 for pid, was in zip(pids, before, strict=True)]
