"""One Workload from apply to all Ready, on a `tarmac up --runtime sim` in a process of its own.

The simulated nodes live in that same process, so its CPU and memory count them too: the measure is more than a control
plane, never less. Readiness is the Workload's own status, as a user would wait for it; afterwards every Instance and
Pod is counted. Meanwhile another client requests `/readyz`: the time of its responses is the delay of clients by
controllers in the same process. The longest turn of the loop is the same in CPU time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp

from benchmarks import turns
from benchmarks.processes import cpu_seconds, resident_bytes
from benchmarks.scenarios import session
from benchmarks.subjects import Subject
from tests.support.tarmac_process import TarmacProcess

CITIES = (
    *("DFW", "SEA", "LHR", "FRA", "NRT", "SYD", "GRU", "JNB", "YYZ", "SIN"),
    *("AMS", "ATL", "BOM", "BOS", "CDG", "CPH", "DEN", "DUB", "DXB", "EWR"),
    *("FCO", "GVA", "HEL", "HKG", "IAD", "ICN", "IST", "JFK", "KIX", "LAX"),
    *("LIS", "MAD", "MEL", "MEX", "MIA", "MUC", "MXP", "ORD", "OSL", "PHX"),
    *("PRG", "SCL", "SFO", "SJC", "SLC", "SOF", "TLV", "VIE", "WAW", "ZRH"),
)
PER_NODE = 16  # instances of two CPUs on a simulated node of 32
COMPUTE = "/apis/compute.datumapis.com/v1alpha/namespaces/default"
WORKLOADS, DEPLOYMENTS, INSTANCES = (f"{COMPUTE}/{kind}" for kind in ("workloads", "workloaddeployments", "instances"))
PODS = "/api/v1/namespaces/default/pods"
WATCHED = (WORKLOADS, DEPLOYMENTS, INSTANCES, PODS)
POLL_SECONDS = 0.1
PROBE_SECONDS = 0.05
QUIET_SECONDS = 4
DEADLINE_SECONDS = 600.0


@dataclass(frozen=True)
class Landing:
    """Results of one Workload's start."""

    instances: int
    seconds: float
    cpu_seconds: float
    before_mb: float  # resident, of the whole process, with all nodes and nothing on them
    resident_mb: float  # the same with everything Ready
    idle_writes: int  # that an edit without a change has caused
    probes: Sequence[float]  # seconds of responses to a probe meanwhile, in order of size
    longest_turn: float  # of the loop, in seconds of its own CPU

    @property
    def rate(self) -> float:
        """Instances per second."""
        return self.instances / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU for each instance."""
        return self.cpu_seconds / self.instances * 1e6


def growth_kb(small: Landing, large: Landing) -> float:
    """Return the resident memory of one more Instance and its Pod, without the common part (history, caches)."""
    more = large.resident_mb - large.before_mb - (small.resident_mb - small.before_mb)
    return more * 1e3 / (large.instances - small.instances)


def workload(replicas: int, cities: Sequence[str]) -> dict[str, Any]:
    """`replicas` in every city, all at once."""
    scale = {"minReplicas": replicas, "instanceManagementPolicy": "Parallel"}
    container = {"name": "web", "image": "docker.io/library/nginx:1.27"}
    spec = {
        "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}, "sandbox": {"containers": [container]}},
        "networkInterfaces": [{"network": {"name": "default"}}],
    }
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "template": {"spec": spec},
            "placements": [{"name": "all", "cityCodes": list(cities), "scaleSettings": scale}],
        },
    }


def land(directory: Path, replicas: int, cities: int) -> Landing:
    """Start a planet, land a Workload of `replicas` in each of so many cities, and stop it again."""
    chosen = CITIES[:cities]
    nodes = replicas // PER_NODE + replicas // 50 + 2
    flags = ("--runtime", "sim", "--cities", ",".join(chosen), "--sim-nodes", str(nodes))
    data, turn = directory / f"planet-{replicas}-{cities}", directory / f"turn-{replicas}-{cities}"
    os.environ[turns.OUTPUT] = str(turn)
    with TarmacProcess(data, *flags, command="up", program=("benchmarks.turns",)) as process:
        subject = Subject("tarmac up", process.url, process.client_context(), (process.pid,))
        return asyncio.run(_measure(subject, workload(replicas, chosen), replicas * cities, turn))


async def _measure(subject: Subject, body: dict[str, Any], wanted: int, turn: Path) -> Landing:
    async with session(subject) as http:
        await _settle(subject)
        await asyncio.to_thread(turns.longest_turn, subject.pids[0], turn)
        resident, used, begin = resident_bytes(subject.pids), cpu_seconds(subject.pids), perf_counter()
        probing = asyncio.ensure_future(_probe(http, subject, probes := list[float]()))
        await _apply(http, subject, body)
        await _until_ready(http, subject, wanted)
        seconds = perf_counter() - begin
        probing.cancel()
        used = cpu_seconds(subject.pids) - used
        after = resident_bytes(subject.pids)
        longest = await asyncio.to_thread(turns.longest_turn, subject.pids[0], turn)
        await _check(http, subject, wanted)
        await _settle(subject)
        idle = await _idle_writes(http, subject, body)
    return Landing(wanted, seconds, used, resident / 1e6, after / 1e6, idle, sorted(probes), longest)


async def _probe(http: aiohttp.ClientSession, subject: Subject, took: list[float]) -> None:
    """Request until cancelled."""
    while True:
        begin = perf_counter()
        async with http.get(f"{subject.url}/readyz") as answer:
            await answer.read()
        took.append(perf_counter() - begin)
        await asyncio.sleep(PROBE_SECONDS)


async def _apply(http: aiohttp.ClientSession, subject: Subject, body: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    url = f"{subject.url}{WORKLOADS}/{body['metadata']['name']}?fieldManager=bench"
    async with http.patch(url, json=body, headers=headers) as answer:
        assert answer.status in (200, 201), await answer.text()


async def _get(http: aiohttp.ClientSession, url: str) -> Any:
    async with http.get(url, headers={"Accept-Encoding": "identity"}) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def _until_ready(http: aiohttp.ClientSession, subject: Subject, wanted: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            found = await _get(http, f"{subject.url}{WORKLOADS}/web")
            if found.get("status", {}).get("readyReplicas") == wanted:
                return
            await asyncio.sleep(POLL_SECONDS)


async def _check(http: aiohttp.ClientSession, subject: Subject, wanted: int) -> None:
    """Check that the status is right: every Instance and every Pod exists and is Ready."""
    for path in (INSTANCES, PODS):
        ready, following = 0, ""
        while True:
            page = await _get(http, f"{subject.url}{path}?limit=2000&continue={following}")
            ready += sum(_is_ready(item) for item in page["items"])
            following = page["metadata"].get("continue", "")
            if not following:
                break
        assert ready == wanted, f"{ready} of {wanted} are Ready in {path}"


def _is_ready(item: dict[str, Any]) -> bool:
    conditions = item.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def _settle(subject: Subject) -> None:
    """Wait until the process is idle except for heartbeats."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            used = cpu_seconds(subject.pids)
            await asyncio.sleep(1.0)
            if cpu_seconds(subject.pids) - used < 0.2:
                return


async def _idle_writes(http: aiohttp.ClientSession, subject: Subject, body: dict[str, Any]) -> int:
    """Return the changes of the Workload and of everything below it after an apply without a change."""
    async with asyncio.TaskGroup() as group:
        counts = [group.create_task(_changes(http, subject.url + path)) for path in WATCHED]
        await asyncio.sleep(QUIET_SECONDS / 2)
        await _apply(http, subject, body)
    return sum(count.result() for count in counts)


async def _changes(http: aiohttp.ClientSession, url: str) -> int:
    """Return the number of changes on a watch in a while."""
    version = (await _get(http, f"{url}?limit=1"))["metadata"]["resourceVersion"]
    count = 0
    query = f"watch=1&resourceVersion={version}&timeoutSeconds={QUIET_SECONDS}"
    async with http.get(f"{url}?{query}", headers={"Accept-Encoding": "identity"}) as answer:
        async for _ in answer.content:
            count += 1
    return count
