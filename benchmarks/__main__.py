"""`make bench`: measure Tarmac, the yardsticks, and with PEERS=1 the real kube-apiserver, all in one run.

Rates on shared machines are not stable, so every rate comes with CPU per request, and promises are about CPU and about
ratios to a yardstick of the same run. Every load is repeated and the median counts. Exits 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from benchmarks import subjects
from benchmarks.backup_rows import backup_rows
from benchmarks.dashboard_rows import dashboard_rows
from benchmarks.etcd_load import create_rate, grpc_create_rate
from benchmarks.etcd_rows import etcd_rows
from benchmarks.external_rows import external_rows
from benchmarks.ingress_rows import ingress_rows
from benchmarks.loss_rows import loss_rows
from benchmarks.machine_rows import machine_rows
from benchmarks.measured import OBJECTS_AT_START, Measured, fill, measure
from benchmarks.node_rows import node_rows
from benchmarks.report import Row, table
from benchmarks.site_rows import site_rows
from benchmarks.worker_rows import worker_rows
from benchmarks.workload_rows import workload_rows
from tests.dashboard.browser import CHROMIUM
from tests.support.etcd import EtcdCluster, find_etcd

NULL_HANDLER_US = 12.0
"""CPU time of a null handler on the reference machine of the promises.

On a slower machine, or a busier day, each promise of CPU time grows in proportion.
"""


def main() -> int:
    """Run everything; print the table."""
    options = argparse.ArgumentParser(prog="make bench ARGS=…")
    options.add_argument("--repeat", type=int, default=5, help="runs of each load (default: %(default)s)")
    options.add_argument(
        "--only",
        choices=("server", "workloads", "node", "machines", "external", "ingress", "vm", "dashboard"),
        help="leave the others out",
    )
    options.add_argument("--large", action="store_true", help="land 30,000 and 50,000 instances too")
    chosen = options.parse_args()
    with_peer = os.environ.get("PEERS") == "1"
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tarmac-bench-")))
        _keep_bytecode(directory / "bytecode")
        rows: list[Row] = []
        if chosen.only in (None, "server"):
            rows += _rows(directory, chosen.repeat, with_peer)
        if chosen.only in (None, "machines"):
            rows += etcd_rows(directory, chosen.repeat, with_peer, _say)
            rows += worker_rows(directory, chosen.repeat, _say)
            rows += loss_rows(directory, chosen.repeat, _say)
            rows += backup_rows(directory, max(1, chosen.repeat // 2), _say)
            rows += _site_rows(directory)
        if chosen.only in (None, "workloads"):
            rows += workload_rows(directory, max(1, chosen.repeat // 2), chosen.large, _say)
        if chosen.only in (None, "node"):
            rows += _node_rows(directory)
        if chosen.only in (None, "external"):
            rows += _external_rows(directory)
        if chosen.only in (None, "ingress"):
            rows += _ingress_rows()
        if chosen.only in (None, "vm"):
            rows += _machine_rows(directory, chosen.repeat)
        if chosen.only in (None, "dashboard"):
            rows += _dashboard_rows(directory, chosen.repeat)
    print(table(rows, with_peer))
    broken = [row.what for row in rows if not row.kept]
    if broken:
        print(f"\nbroken promises: {', '.join(broken)}", file=sys.stderr)
    return bool(broken)


def _node_rows(directory: Path) -> list[Row]:
    if os.geteuid() != 0:
        _say("NOT MEASURED: nodes, which need root")
        return []
    return node_rows(directory, _say)


def _site_rows(directory: Path) -> list[Row]:
    if os.geteuid() != 0:
        _say("NOT MEASURED: the package on fresh machines, which needs root")
        return []
    return list(site_rows(directory, _say))


def _external_rows(directory: Path) -> list[Row]:
    if os.geteuid() != 0:
        _say("NOT MEASURED: external services, which need root")
        return []
    return external_rows(directory / "external", _say)


def _ingress_rows() -> list[Row]:
    if os.geteuid() != 0:
        _say("NOT MEASURED: connections from outside, which need root")
        return []
    return ingress_rows(_say)


def _machine_rows(directory: Path, repeat: int) -> list[Row]:
    if os.geteuid() != 0:
        _say("NOT MEASURED: virtual machines, which need root")
        return []
    return machine_rows(directory / "machines", repeat, _say)


def _dashboard_rows(directory: Path, repeat: int) -> list[Row]:
    if not CHROMIUM.exists():
        _say(f"NOT MEASURED: the dashboard, which needs {CHROMIUM}")
        return []
    return dashboard_rows(directory / "dashboard", repeat, _say)


def _keep_bytecode(directory: Path) -> None:
    """Keep bytecode, as installed programs do; without it each start would compile the program."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(directory)


def _rows(directory: Path, repeat: int, with_peer: bool) -> Iterator[Row]:
    with subjects.tarmac(directory) as subject, subjects.null_handler(directory) as floor:
        _say("measuring tarmac, and the null handler")
        own = uvloop.run(measure(subject, repeat, floor))
    _say("measuring etcd transactions")
    with _etcd(directory) as port:
        value = b"x" * 1250
        etcd = [uvloop.run(create_rate(port, 8000, 64, value, b"/frames/%d/" % run)) for run in range(repeat)]
        grpc = [asyncio.run(grpc_create_rate(port, 3000, 64, value, b"/grpc/%d/" % run)) for run in range(repeat)]
    _say("measuring starts")
    with subjects.tarmac(directory, "start") as subject:
        uvloop.run(fill(subject, OBJECTS_AT_START))
    starts = [subjects.start_seconds(directory / "start") for _ in range(repeat)]
    peer = Measured()
    if with_peer:
        with subjects.kubernetes() as subject:
            _say("measuring kube-apiserver")
            peer = uvloop.run(measure(subject, max(3, repeat // 2), full=False))
    get_rate = [cost.rate for cost in own.get]
    slow = max(1.0, statistics.median(cost.cpu_us for cost in own.floor) / NULL_HANDLER_US)
    yield Row("null handler on the same layer", "CPU-µs", [cost.cpu_us for cost in own.floor])
    yield Row("null handler on the same layer", "req/s", [cost.rate for cost in own.floor])
    yield Row("slower than the machine of the promises", "times", [slow])
    yield Row("GET one object", "CPU-µs", [c.cpu_us for c in own.get], 35 * slow, peer=[c.cpu_us for c in peer.get])
    yield Row("GET one object, 32 connections", "req/s", get_rate, peer=[c.rate for c in peer.get])
    floors = zip(get_rate, own.floor, strict=True)
    yield Row("GET rate over null handler", "ratio", [rate / floor.rate for rate, floor in floors], 0.5, at_least=True)
    yield Row(
        "create 1 KB, 64 clients",
        "CPU-µs",
        [c.cpu_us for c in own.create],
        150 * slow,
        peer=[c.cpu_us for c in peer.create],
    )
    yield Row("create 1 KB, 64 clients", "req/s", [c.rate for c in own.create], peer=[c.rate for c in peer.create])
    yield Row(
        "create 1 KB, 1 client", "CPU-µs", [c.cpu_us for c in own.create_one], peer=[c.cpu_us for c in peer.create_one]
    )
    yield Row(
        "create 1 KB, 1 client", "req/s", [c.rate for c in own.create_one], peer=[c.rate for c in peer.create_one]
    )
    updates, peers = [cost.cpu_us for cost in own.update], [cost.cpu_us for cost in peer.update]
    creates, theirs = [cost.cpu_us for cost in own.create_few], [cost.cpu_us for cost in peer.create_few]
    yield Row("create 1 KB, 16 clients", "CPU-µs", creates, peer=theirs)
    yield Row("PUT 1 KB, 16 clients", "CPU-µs", updates, 200 * slow, peer=peers)
    yield Row("PUT over create of as many clients", "ratio", [statistics.median(updates) / statistics.median(creates)])
    pods, peers = [cost.cpu_us for cost in own.create_pod], [cost.cpu_us for cost in peer.create_pod]
    yield Row("create a Pod, 16 clients", "CPU-µs", pods, peer=peers)
    reports, peers = [cost.cpu_us for cost in own.report_pod], [cost.cpu_us for cost in peer.report_pod]
    yield Row("patch a Pod's status, 16 clients", "CPU-µs", reports, peer=peers)
    yield Row("etcd, one-object transactions, 64 in flight, from grpcio", "txn/s", grpc)
    ratio = [cost.rate / statistics.median(grpc) for cost in own.create]
    yield Row("create rate over etcd transactions from grpcio", "ratio", ratio, 3, at_least=True)
    yield Row("etcd, one-object transactions, 64 in flight, pre-encoded frames", "txn/s", etcd)
    ratio = [cost.rate / statistics.median(etcd) for cost in own.create]
    yield Row("create rate over etcd transactions from pre-encoded frames", "ratio", ratio)
    yield Row("LIST 5,000 objects", "CPU-ms", own.list_cpu_ms, 15 * slow, peer=peer.list_cpu_ms)
    yield Row("LIST 5,000 objects", "wall ms", own.list_wall_ms, peer=peer.list_wall_ms)
    gzip_limit = statistics.median(own.list_cpu_ms) / 3
    yield Row("LIST 5,000, gzip, unchanged and repeated", "CPU-ms", own.gzip_cpu_ms, gzip_limit, peer=peer.gzip_cpu_ms)
    yield Row("LIST 5,000 as a Table, unchanged", "CPU-ms", own.table_cpu_ms, 10 * slow, peer=peer.table_cpu_ms)
    yield Row("LIST 5,000 as metadata, unchanged", "CPU-ms", own.metadata_cpu_ms, 10 * slow, peer=peer.metadata_cpu_ms)
    yield Row("fdatasync of this disk, p50", "ms", own.sync_ms)
    yield Row("create → watch event, p50", "ms", own.watch_p50_ms, peer=peer.watch_p50_ms)
    syncs = zip(own.watch_p50_ms, own.sync_ms, strict=True)
    yield Row("create → watch event, p50", "fdatasyncs", [event / sync for event, sync in syncs], 4 * slow)
    yield Row("send to each of 300 plain sockets", "CPU-µs", own.send_us)
    yield Row("fan-out to 300 TLS watchers", "CPU-µs per event", own.fan_out_us, peer=peer.fan_out_us)
    sends = zip(own.fan_out_us, own.send_us, strict=True)
    yield Row("fan-out to 300 TLS watchers", "plain sends", [event / send for event, send in sends], 2)
    yield Row("resident, 5,000 objects", "MB", own.resident_mb, 95, peer=peer.resident_mb)
    yield Row("growth per 1.25 KB object", "KB", own.growth_kb, 4, peer=peer.growth_kb)
    yield Row(f"start to ready, {OBJECTS_AT_START:,} objects", "s", [wall for wall, _ in starts], 1 * slow)
    yield Row(f"start to ready, {OBJECTS_AT_START:,} objects", "CPU-s", [cpu for _, cpu in starts])


@contextmanager
def _etcd(directory: Path) -> Generator[int]:
    """A single etcd member on loopback; yields its client port."""
    binary = find_etcd()
    assert binary is not None, "no etcd: run python -m tools.fetch_etcd"
    (directory / "etcd").mkdir()
    cluster = EtcdCluster(binary, directory / "etcd")
    try:
        cluster.start()
        yield int(cluster.endpoints[0].rpartition(":")[2])
    finally:
        cluster.stop()


def _say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
