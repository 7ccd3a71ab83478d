"""One Workload in many cities on a `tarmac server` without nodes, whose deployments report from outside.

The server works as for providers that run instances elsewhere: it creates and places one deployment for each city,
processes their reports, and rolls them up. CPU is that of the whole process, requests included, less its CPU at rest.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any, TypeVar

import aiohttp

from benchmarks.processes import cpu_seconds
from benchmarks.scenarios import session
from benchmarks.subjects import Subject
from benchmarks.workloads import DEADLINE_SECONDS, DEPLOYMENTS, WORKLOADS, workload
from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.declare import decode
from tarmac.decide.rollout.template import template_hash
from tests.support.tarmac_process import TarmacProcess

LOCATIONS = "/apis/networking.datumapis.com/v1alpha/locations"
CONTROLLERS = "*,-deployment,-location"  # providers run the instances, and report the state of their locations
MERGE = {"Content-Type": "application/merge-patch+json"}
IDENTITY = {"Accept-Encoding": "identity"}
REPLICAS = 1000  # more than a deployment reports one by one
CONCURRENCY = 16
REPORTS = 800
PACED_REPORTS = 200
PACED_INTERVAL = 0.05
REST_SECONDS = 4.0

Object = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class ManyCities:
    """CPU of the server, in milliseconds."""

    cities: int
    deployment_ms: float  # made, placed, and reported three times
    report_ms: float  # one report of counters alone, roll-up included, when as many come at a time
    paced_ms: float  # the same when they come one by one, twenty a second


def many_cities(directory: Path, cities: int) -> ManyCities:
    """Start a server with as many Locations, land one Workload, report, and stop it again."""
    codes = ["".join(letters) for letters in itertools.islice(itertools.product(ascii_uppercase, repeat=3), cities)]
    with TarmacProcess(directory / f"cities-{cities}", "--controllers", CONTROLLERS) as process:
        subject = Subject("tarmac server", process.url, process.client_context(), (process.pid,))
        return asyncio.run(_measure(subject, codes))


async def _measure(subject: Subject, codes: list[str]) -> ManyCities:
    async with session(subject) as http:
        site = _Site(http, subject, codes)
        await _each(codes, site.make_location)
        await asyncio.sleep(REST_SECONDS)
        at_rest = await site.cpu_at_rest()
        land = await site.cpu_of(site.land, at_rest)
        await site.all_report(1)  # far from complete: later reports change counters alone
        await asyncio.sleep(REST_SECONDS)
        report = await site.cpu_of(site.report_at_once, at_rest)
        await asyncio.sleep(REST_SECONDS)
        paced = await site.cpu_of(site.report_paced, at_rest)
    return ManyCities(len(codes), land / len(codes) * 1e3, report / REPORTS * 1e3, paced / PACED_REPORTS * 1e3)


class _Site:
    """A server, its cities, and the deployments of the Workload there."""

    def __init__(self, http: aiohttp.ClientSession, subject: Subject, codes: Sequence[str]) -> None:
        self._http = http
        self._subject = subject
        self._codes = codes
        self._deployments: list[Object] = []
        self._ready: list[int] = []

    async def cpu_at_rest(self) -> float:
        """CPU seconds per second."""
        used = cpu_seconds(self._subject.pids)
        await asyncio.sleep(REST_SECONDS)
        return (cpu_seconds(self._subject.pids) - used) / REST_SECONDS

    async def cpu_of(self, act: Callable[[], Awaitable[None]], at_rest: float) -> float:
        """Return the CPU seconds of an action, beyond those at rest."""
        now = asyncio.get_running_loop().time
        used, began = cpu_seconds(self._subject.pids), now()
        await act()
        return cpu_seconds(self._subject.pids) - used - at_rest * (now() - began)

    async def make_location(self, code: str) -> None:
        """A Location that is ready."""
        spec = {
            "locationClassName": "self-managed",
            "topology": {"topology.datum.net/city-code": code},
            "provider": {"nodes": {}},
        }
        body = {
            "apiVersion": "networking.datumapis.com/v1alpha",
            "kind": "Location",
            "metadata": {"name": code.lower()},
            "spec": spec,
        }
        await self._send("POST", LOCATIONS, body)
        ready = _condition("Ready", "True", "NodesReady")
        await self._send("PATCH", f"{LOCATIONS}/{code.lower()}/status", {"status": {"nodes": 1, "conditions": [ready]}})

    async def land(self) -> None:
        """Create one Workload and wait for deployments with all their instances."""
        await self._send("POST", WORKLOADS, workload(REPLICAS, self._codes))
        self._deployments = await self._placed()
        for ready in (0, REPLICAS // 2, REPLICAS):
            await self.all_report(ready)

    async def all_report(self, ready: int) -> None:
        """Let every deployment report so many ready instances, and wait for the Workload's sum."""
        self._ready = [ready] * len(self._deployments)
        await _each(self._deployments, lambda each: self._report(each, ready))
        await self._until_ready(ready * len(self._deployments))

    async def report_at_once(self) -> None:
        """Let deployments report one more instance each."""
        await _each(range(REPORTS), self._report_one_more)

    async def report_paced(self) -> None:
        """Do the same, one after the other at a steady rate."""
        for number in range(PACED_REPORTS):
            await self._report_one_more(number)
            await asyncio.sleep(PACED_INTERVAL)

    async def _report_one_more(self, number: int) -> None:
        place = number % len(self._deployments)
        self._ready[place] += 1
        await self._report(self._deployments[place], self._ready[place])

    async def _placed(self) -> list[Object]:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                found = (await self._send("GET", DEPLOYMENTS))["items"]
                if sum("location" in each.get("status", {}) for each in found) == len(self._codes):
                    return found
                await asyncio.sleep(1.0)

    async def _until_ready(self, wanted: int) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                if (await self._send("GET", f"{WORKLOADS}/web"))["status"]["readyReplicas"] == wanted:
                    return
                await asyncio.sleep(0.5)

    async def _report(self, deployment: Object, ready: int) -> None:
        name = deployment["metadata"]["name"]
        await self._send("PATCH", f"{DEPLOYMENTS}/{name}/status", {"status": _status(deployment, ready)})

    async def _send(self, method: str, path: str, body: Object | None = None) -> Object:
        headers = {**IDENTITY, **(MERGE if method == "PATCH" else {})}
        async with self._http.request(method, self._subject.url + path, json=body, headers=headers) as answer:
            assert answer.status in (200, 201), await answer.text()
            return await answer.json()


async def _each(subjects: Sequence[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Act on all, as many at a time as several providers would."""
    for first in range(0, len(subjects), CONCURRENCY):
        await asyncio.gather(*(act(each) for each in subjects[first : first + CONCURRENCY]))


def _status(deployment: Object, ready: int) -> Object:
    """Return the status that a provider writes; it keeps foreign conditions."""
    city, complete = deployment["spec"]["cityCode"], ready == REPLICAS
    scheduled = [each for each in deployment["status"]["conditions"] if each["type"] == "Scheduled"]
    progress = f"{city}: {REPLICAS} instances exist, {REPLICAS} are wanted, {ready} are ready"
    return {
        "observedGeneration": deployment["metadata"]["generation"],
        "revision": template_hash(decode(InstanceTemplate, deployment["spec"]["template"])),
        "replicas": REPLICAS,
        "desiredReplicas": REPLICAS,
        "updatedReplicas": REPLICAS,
        "currentReplicas": ready,
        "readyReplicas": ready,
        "conditions": [
            *scheduled,
            _condition("Available", "True" if ready else "False", "StableInstanceFound", f"{ready}/{REPLICAS}"),
            _condition("Progressing", "True", "Complete" if complete else "Scaling", progress),
            _condition("Ready", "True" if complete else "False", "Complete" if complete else "Scaling", progress),
        ],
    }


def _condition(type: str, status: str, reason: str, message: str = "") -> Object:
    time = "2026-11-18T00:00:00Z"
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}
