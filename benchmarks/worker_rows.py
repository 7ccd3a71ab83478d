"""The gain of `--processes 2`: the load of one server with two processes, relative to one.

Client, etcd and server share two processors here, so the client's share is taken off: the measure is the CPU of the
busiest process. Half of it for the same load means twice the load. The figure includes the kernel's distribution of
connections, since that limits real servers too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import uvloop

from benchmarks import scenarios
from benchmarks.processes import cpu_seconds
from benchmarks.report import Row
from benchmarks.scenarios import CONFIG_MAPS
from benchmarks.subjects import Subject
from tests.support.etcd import EtcdCluster, find_etcd, find_peer_etcd
from tests.support.tarmac_process import TarmacProcess

_NAMESPACE = "bench-workers"
_LEAST = 1.6
_CONNECTIONS, _GETS = 256, 10_000

Load = Callable[[Subject, int], Awaitable[object]]  # and the number of the run
_LOADS: dict[str, Load] = {
    f"GET one object, {_CONNECTIONS} connections": lambda subject, _: scenarios.get(
        subject, CONFIG_MAPS.format(_NAMESPACE) + "/warm-1", _GETS, _CONNECTIONS
    ),
    "events to 300 watches": lambda subject, run: scenarios.fan_out(subject, _NAMESPACE, f"f{run}"),
}


def worker_rows(directory: Path, repeat: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Both servers run on one etcd, under prefixes of their own, and take turns."""
    binary = find_peer_etcd() or find_etcd()
    assert binary is not None, "no etcd: run python -m tools.fetch_etcd"
    with ExitStack() as stack:
        folder = directory / "workers"
        (folder / "etcd").mkdir(parents=True)
        cluster = EtcdCluster(binary, folder / "etcd")
        stack.callback(cluster.stop)
        cluster.start()
        say("measuring one process, and two")
        servers: list[tuple[Subject, list[int]]] = []
        for count in (1, 2):
            store = f"etcd://{cluster.endpoints[0]}?compact=0&prefix=/bench/{count}"
            flags = ("--store", store, "--processes", str(count), "--controllers=namespace")
            process = stack.enter_context(TarmacProcess(folder / f"data-{count}", *flags))
            pids = [process.pid] if count == 1 else _children(process.pid)
            servers.append((Subject("tarmac", process.url, process.client_context(), tuple(pids)), pids))
        found = uvloop.run(_measure(servers, repeat))
    for what, times in found.items():
        yield Row(f"--processes 2 over 1: {what}", "times", times, _LEAST, at_least=True)


async def _measure(servers: list[tuple[Subject, list[int]]], repeat: int) -> dict[str, list[float]]:
    for subject, _ in servers:
        await scenarios.make_namespace(subject, _NAMESPACE)
        await scenarios.create(subject, _NAMESPACE, "warm", 50, 16)
    found: dict[str, list[float]] = {}
    for run in range(repeat):
        for what, load in _LOADS.items():
            one, two = [await _busiest(subject, pids, load, run) for subject, pids in servers]
            found.setdefault(what, []).append(one / two)
    return found


async def _busiest(subject: Subject, pids: list[int], load: Load, run: int) -> float:
    """Return the CPU seconds of the busiest process."""
    before = [cpu_seconds([pid]) for pid in pids]
    await load(subject, run)
    return max(cpu_seconds([pid]) - was for pid, was in zip(pids, before, strict=True))


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
