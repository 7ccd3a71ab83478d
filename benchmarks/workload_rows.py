"""Promises about scheduling and about landing a Workload, as rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path

from benchmarks.bindings import Bound, Kind, bind
from benchmarks.manycities import ManyCities, many_cities
from benchmarks.report import Row
from benchmarks.workloads import Landing, growth_kb, land

NODES = (100, 1000, 5000)
PODS = 10_000
CITIES = (10, 100, 1000)
SIZES = ((100, 10), (1000, 10))  # replicas in each of so many cities
LARGE = ((600, 50), (1000, 50))
CLASSED: dict[Kind, str] = {"classed": "classes and own CPUs", "crowded": "classes and own CPUs, one class 90 % full"}
Say = Callable[[str], None]


def workload_rows(directory: Path, repeat: int, large: bool, say: Say) -> Iterator[Row]:
    """Bindings first, each in a process of its own; then whole planets."""
    runs: dict[int, list[Bound]] = {}
    for nodes in NODES:
        say(f"binding {PODS:,} pods to {nodes:,} nodes")
        runs[nodes] = [bind(nodes, PODS) for _ in range(repeat)]
    yield from _binding_rows(runs)
    for kind, what in CLASSED.items():
        say(f"binding {PODS:,} pods to nodes with {what}")
        ends = (NODES[0], NODES[-1])
        found = {nodes: [bind(nodes, PODS, kind) for _ in range(repeat)] for nodes in ends}
        yield from _binding_rows(found, f", {what}")
    yield from _city_rows(directory, say)
    landings: list[Landing] = []
    for replicas, cities in (*SIZES, *(LARGE if large else ())):
        say(f"landing {replicas * cities:,} instances in {cities} cities")
        landings.append(land(directory, replicas, cities))
    yield from _landing_rows(landings)


def _binding_rows(runs: dict[int, list[Bound]], what: str = "") -> Iterator[Row]:
    for nodes, bound in runs.items():
        promise = 5000 if nodes == NODES[-1] else None
        yield Row(f"durable bindings{what}, {nodes:,} nodes", "pods/s", [run.rate for run in bound], promise, True)
        yield Row(f"durable bindings{what}, {nodes:,} nodes", "CPU-µs", [run.cpu_us for run in bound])
    fewest = statistics.median(run.cpu_us for run in runs[NODES[0]])
    ratios = [run.cpu_us / fewest for run in runs[NODES[-1]]]
    yield Row(f"CPU per binding{what}, {NODES[-1]:,} over {NODES[0]:,} nodes", "ratio", ratios, 1.3)


def _city_rows(directory: Path, say: Say) -> Iterator[Row]:
    """Promises for the largest number of cities, and for its cost relative to the smallest."""
    found: list[ManyCities] = []
    for cities in CITIES:
        say(f"one Workload in {cities:,} cities")
        found.append(many_cities(directory, cities))
    few, many = found[0], found[-1]
    for each in found:
        size, promised = f"{each.cities:,} cities", each is many
        yield Row(
            f"a deployment made, placed and reported 3 times, {size}",
            "CPU-ms",
            [each.deployment_ms],
            4 if promised else None,
        )
        yield Row(
            f"report of a deployment, roll-up included, {size}", "CPU-ms", [each.report_ms], 1 if promised else None
        )
        yield Row(f"the same, one by one and 20 a second, {size}", "CPU-ms", [each.paced_ms])
    ratio = many.paced_ms / few.paced_ms
    yield Row(f"report of a deployment, {many.cities:,} over {few.cities} cities", "ratio", [ratio], 1.3)


def _landing_rows(landings: list[Landing]) -> Iterator[Row]:
    for landing in landings:
        size = f"{landing.instances:,} instances"
        promised = landing.instances == prod(SIZES[-1])
        yield Row(
            f"apply to all Ready, {size}", "instances/s", [landing.rate], 400 if promised else None, at_least=True
        )
        yield Row(f"apply to all Ready, {size}", "CPU-µs per instance", [landing.cpu_us])
        yield Row(f"resident, {size} and their nodes", "MB", [landing.resident_mb], 250 if promised else None)
        yield Row(f"longest answer to a probe, {size} landing", "ms", [landing.probes[-1] * 1e3], 50)
        yield Row(f"longest turn of the loop, {size} landing", "CPU-ms", [landing.longest_turn * 1e3], 50)
    small, large = landings[0], landings[-1]
    yield Row("CPU per instance, largest over smallest", "ratio", [large.cpu_us / small.cpu_us], 1.2)
    yield Row("growth per Instance and its Pod", "KB", [growth_kb(small, large)], 15)
    yield Row("writes after an apply without a change", "writes", [max(each.idle_writes for each in landings)], 0)
