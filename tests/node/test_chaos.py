"""Agent, containerd and server are killed at random while pods come and go.

Nothing restarts that should not, everything wanted runs in the end, and when all pods are gone the kernel holds what it
held before them. 30 kills, 300 with TARMAC_SOAK=1; at least two in five hit a node in the middle of an operation.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.status import ApiError
from tarmac.apps.cities.agents import agents_of
from tarmac.apps.cities.layout import CityLayout, city_of
from tarmac.apps.cities.removing import underlay_of
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.informer import Informer, Informers
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import PODS
from tarmac.datapath.hosts import HostUnderlay
from tarmac.runtimes import containerd
from tarmac.runtimes.parts import find_parts
from tests.node.planet import Json, busybox, down, pod
from tests.node.traces import traces
from tests.support.tarmac_process import TarmacProcess

KILLS = 300 if os.environ.get("TARMAC_SOAK") else 30
SEED = int(os.environ.get("TARMAC_SEED", "1"))
CITIES = ("DFW", "LHR")
MOST_PODS = 10
IN_FLIGHT = 0.4
PATIENCE = 120.0

pytestmark = [pytest.mark.root, pytest.mark.serial, pytest.mark.timeout(0 if KILLS > 30 else 600)]


@dataclass
class Chaos:
    """A planet under attack, and what is known about its pods."""

    process: TarmacProcess
    underlay: HostUnderlay
    cities: list[CityLayout]
    client: Client
    pods: Informer[Json]
    dice: random.Random
    wanted: set[str] = field(default_factory=set[str])
    first_seen: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    kills: Counter[str] = field(default_factory=Counter[str])
    in_flight: int = 0
    made: int = 0

    async def create(self) -> None:
        """One more pod, of either kind, in either city."""
        name = f"churn-{self.made}"
        self.made += 1
        kind = "gvisor" if self.dice.random() < 0.3 else "runc"
        city = self.dice.choice(self.cities)
        body = pod(name, busybox(), runtimeClassName=kind, nodeSelector={"kubernetes.io/hostname": city.node})
        await self._insist(
            lambda: self.client.resource(PODS).create(
                {**body, "metadata": {**body["metadata"], "namespace": "default"}}
            )
        )
        self.wanted.add(name)

    async def delete(self) -> None:
        """One pod less."""
        name = self.dice.choice(sorted(self.wanted))
        self.wanted.discard(name)
        await self._insist(lambda: self.client.resource(PODS).delete(name, "default"))

    async def kill(self) -> None:
        """Kill something that some city, or all, depend on."""
        city = self.dice.choice(self.cities)
        what = self.dice.choice(["agent", "agent", "containerd", "server"])
        self.kills[what] += 1
        self.in_flight += any(self._moving(item.object, city, what) for item in self.pods.cache.items())
        if what == "server":
            self.process.kill()
            await asyncio.to_thread(self.process.start)
        elif what == "agent":
            _kill(pid for pid in agents_of(city.data.parent.parent) if city.node in _words(pid))
        else:
            _kill(containerd.processes(city.containerd(find_parts())))

    def look(self, item: Json) -> None:
        """Remember under which ids a pod's containers first ran."""
        name, ids = item["metadata"]["name"], _containers(item)
        if ids and name not in self.first_seen:
            self.first_seen[name] = ids

    def amiss(self) -> list[str]:
        """Where what is wanted and what runs differ."""
        found = {item.object["metadata"]["name"]: item.object for item in self.pods.cache.items()}
        missing = [f"{name} is missing" for name in sorted(self.wanted - found.keys())]
        wrong = [name for name, each in found.items() if name not in self.wanted or not _runs(each)]
        return missing + [f"{name}: {found[name]['metadata']} {found[name].get('status')}" for name in wrong]

    async def _insist(self, ask: Any) -> None:
        while True:
            try:
                await ask()
            except ApiError as error:
                if error.code in (404, 409):
                    return
                if error.code < 500:
                    raise
            except ClientError:
                pass
            else:
                return
            await asyncio.sleep(0.1)

    @staticmethod
    def _moving(each: Json, city: CityLayout, what: str) -> bool:
        """Whether an operation on this pod is under way where the blow falls."""
        there = what == "server" or each["spec"].get("nodeName") == city.node
        return (
            there
            and bool(each["spec"].get("nodeName"))
            and ("deletionTimestamp" in each["metadata"] or not _runs(each))
        )


@pytest.fixture
def planet(tmp_path: Path) -> Iterator[TarmacProcess]:
    directory = tmp_path / "data"
    try:
        flags = ("--runtime", "containerd", "--cities", ",".join(CITIES))
        with TarmacProcess(directory, *flags, command="up") as process:
            yield process
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"


async def test_nothing_restarts_and_nothing_leaks(planet: TarmacProcess, capfd: pytest.CaptureFixture[str]) -> None:
    underlay = underlay_of(planet.data_dir)
    cities = [city_of(code, underlay, planet.data_dir) for code in CITIES]
    client = Client(HttpTransport(load(str(planet.kubeconfig)).http))
    informers = Informers(client)
    informer = informers.informer(PODS, namespace="default")
    chaos = Chaos(planet, underlay, cities, client, informer, random.Random(SEED))
    informer.on_change(lambda _old, new: chaos.look(new.object) if new else None)
    watching = asyncio.create_task(informers.run())
    try:
        await _warm_up(chaos)
        before = await asyncio.to_thread(traces, planet.data_dir, underlay, cities)
        await _storm(chaos)
        await _eventually(chaos.amiss, "what is wanted runs")
        _nothing_restarted(chaos)
        await _clear(chaos)
        await _nothing_left(chaos, before)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await client.close()
    with capfd.disabled():
        print(f"\n{sum(chaos.kills.values())} kills {dict(chaos.kills)}, {chaos.in_flight} amid an operation; ", end="")
        print(f"{chaos.made} pods made, {len(chaos.first_seen)} seen running, none restarted, nothing left")
    assert chaos.in_flight >= IN_FLIGHT * KILLS


async def _nothing_left(chaos: Chaos, before: set[str]) -> None:
    """Wait until the kernel holds nothing that it did not hold before. Networks go after a while; they may be gone."""
    await _eventually(
        lambda: sorted(traces(chaos.process.data_dir, chaos.underlay, chaos.cities) - before), "nothing is left behind"
    )


async def _warm_up(chaos: Chaos) -> None:
    """A pod of each kind in each city comes and goes, so that what is made once for all is there before the storm."""
    for _ in range(4):
        await chaos.create()
    await _eventually(chaos.amiss, "the first pods run")
    await _clear(chaos)


async def _storm(chaos: Chaos) -> None:
    for _ in range(KILLS):
        for _ in range(chaos.dice.randint(1, 2)):
            if len(chaos.wanted) < MOST_PODS and (not chaos.wanted or chaos.dice.random() < 0.6):
                await chaos.create()
            else:
                await chaos.delete()
        await asyncio.sleep(chaos.dice.uniform(0.02, 0.3))
        await chaos.kill()
        await asyncio.sleep(chaos.dice.uniform(0.5, 2.5))


async def _clear(chaos: Chaos) -> None:
    while chaos.wanted:
        await chaos.delete()
    await _eventually(chaos.amiss, "all pods are gone")


def _nothing_restarted(chaos: Chaos) -> None:
    for item in chaos.pods.cache.items():
        each = item.object
        name = each["metadata"]["name"]
        assert [status["restartCount"] for status in each["status"]["containerStatuses"]] == [0], name
        assert _containers(each) == chaos.first_seen[name], f"{name} was replaced"


async def _eventually(amiss: Callable[[], list[str]], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while wrong := await asyncio.to_thread(amiss):
        assert asyncio.get_running_loop().time() < deadline, f"not so with seed {SEED}: {what}, but {wrong}"
        await asyncio.sleep(0.3)


def _runs(each: Json) -> bool:
    conditions = {one["type"]: one["status"] for one in each.get("status", {}).get("conditions") or ()}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in each["metadata"]


def _containers(each: Json) -> tuple[str, ...]:
    statuses = each.get("status", {}).get("containerStatuses") or ()
    return tuple(
        status["containerID"] for status in statuses if status.get("containerID") and "running" in status["state"]
    )


def _kill(pids: Any) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _words(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""
