"""A planet under fault injection: pods come and go while their dependencies are killed; invariants at the end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

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
from tests.node.planet import Json, busybox, command_of, down, pod
from tests.node.traces import traces
from tests.support.tarmac_process import TarmacProcess

SEED = int(os.environ.get("TARMAC_SEED", "1"))
CITIES = ("DFW", "LHR")
MOST_PODS = 10
IN_FLIGHT = 0.4
PATIENCE = 120.0


@dataclass
class Chaos:
    """A planet under attack, and the state of its pods as the test knows it."""

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
        """Create one more pod, of either kind, in either city."""
        name = f"churn-{self.made}"
        self.made += 1
        kind = "gvisor" if self.dice.random() < 0.3 else "runc"
        city = self.dice.choice(self.cities)
        body = pod(name, busybox(), runtimeClassName=kind, nodeSelector={"kubernetes.io/hostname": city.node})
        await insist(
            lambda: self.client.resource(PODS).create(
                {**body, "metadata": {**body["metadata"], "namespace": "default"}}
            )
        )
        self.wanted.add(name)

    async def delete(self) -> None:
        """Delete one pod."""
        name = self.dice.choice(sorted(self.wanted))
        self.wanted.discard(name)
        await self.delete_one(name)

    async def delete_one(self, name: str) -> None:
        """Delete this pod."""
        await insist(lambda: self.client.resource(PODS).delete(name, "default"))

    async def kill(self) -> None:
        """Kill a process that one city, or all, depend on."""
        city = self.dice.choice(self.cities)
        what = self.dice.choice(["agent", "agent", "containerd", "server"])
        self.kills[what] += 1
        self.in_flight += any(self.moving(item.object, city, what) for item in self.pods.cache.items())
        if what == "server":
            self.process.kill()
            await asyncio.to_thread(self.process.start)
        elif what == "agent":
            kill_all(pid for pid in agents_of(city.data.parent.parent) if city.node in command_of(pid))
        else:
            kill_all(containerd.processes(city.containerd(find_parts())))

    def look(self, item: Json) -> None:
        """Record the ids of a pod's first containers."""
        name, ids = item["metadata"]["name"], containers_of(item)
        if ids and name not in self.first_seen:
            self.first_seen[name] = ids

    def found(self) -> dict[str, Json]:
        """Return the existing pods."""
        return {item.object["metadata"]["name"]: item.object for item in self.pods.cache.items()}

    def amiss(self) -> list[str]:
        """Return the differences between wanted and running pods."""
        found = self.found()
        missing = [f"{name} is missing" for name in sorted(self.wanted - found.keys())]
        wrong = [name for name, each in found.items() if name not in self.wanted or not runs(each)]
        return missing + [f"{name}: {found[name]['metadata']} {found[name].get('status')}" for name in wrong]

    async def storm(self, kills: int) -> None:
        """Kill so many processes, each right after an operation has started."""
        for _ in range(kills):
            for _ in range(self.dice.randint(1, 2)):
                if len(self.wanted) < MOST_PODS and (not self.wanted or self.dice.random() < 0.6):
                    await self.create()
                else:
                    await self.delete()
            await asyncio.sleep(self.dice.uniform(0.02, 0.3))
            await self.kill()
            await asyncio.sleep(self.dice.uniform(0.5, 2.5))

    async def clear(self) -> None:
        """Delete all pods and wait for their end."""
        while self.wanted:
            await self.delete()
        await eventually(self.amiss, "all pods are gone")

    def traces(self) -> set[str]:
        """Return the planet's state in the kernel."""
        return traces(self.process.data_dir, self.underlay, self.cities)

    async def nothing_left(self, before: set[str]) -> None:
        """Wait until no state is left that was not there before. Networks go after a while; they may be gone."""
        await eventually(lambda: sorted(self.traces() - before), "nothing is left behind")

    @staticmethod
    def moving(each: Json, city: CityLayout, what: str) -> bool:
        """Return true if an operation on this pod is in progress in the part that will be killed."""
        there = what == "server" or each["spec"].get("nodeName") == city.node
        return (
            there and bool(each["spec"].get("nodeName")) and ("deletionTimestamp" in each["metadata"] or not runs(each))
        )


Attack = TypeVar("Attack", bound=Chaos)


@contextmanager
def planet_of(tmp_path: Path) -> Generator[TarmacProcess]:
    """A planet to attack. After any failure, `tarmac down` leaves nothing."""
    directory = tmp_path / "data"
    try:
        flags = ("--runtime", "containerd", "--cities", ",".join(CITIES))
        with TarmacProcess(directory, *flags, command="up") as process:
            yield process
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"


@asynccontextmanager
async def attack(planet: TarmacProcess, make: type[Attack]) -> AsyncGenerator[Attack]:
    """Yield the attack on the planet, with an informer of its pods."""
    underlay = underlay_of(planet.data_dir)
    cities = [city_of(code, underlay, planet.data_dir) for code in CITIES]
    client = Client(HttpTransport(load(str(planet.kubeconfig)).http))
    informers = Informers(client)
    informer = informers.informer(PODS, namespace="default")
    chaos = make(planet, underlay, cities, client, informer, random.Random(SEED))
    informer.on_change(lambda _old, new: chaos.look(new.object) if new else None)
    watching = asyncio.create_task(informers.run())
    try:
        yield chaos
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await client.close()


async def insist(ask: Callable[[], Awaitable[Any]]) -> None:
    """Repeat until the server has answered; an object that exists already, or is gone, counts as success."""
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


async def eventually(amiss: Callable[[], list[str]], what: str) -> None:
    """Wait until there is no difference."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while wrong := await asyncio.to_thread(amiss):
        assert asyncio.get_running_loop().time() < deadline, f"not so with seed {SEED}: {what}, but {wrong}"
        await asyncio.sleep(0.3)


def runs(each: Json) -> bool:
    """Return true if a pod is Ready and not being deleted."""
    conditions = {one["type"]: one["status"] for one in each.get("status", {}).get("conditions") or ()}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in each["metadata"]


def containers_of(each: Json) -> tuple[str, ...]:
    """Return the ids of running containers."""
    statuses = each.get("status", {}).get("containerStatuses") or ()
    return tuple(
        status["containerID"] for status in statuses if status.get("containerID") and "running" in status["state"]
    )


def kill_all(pids: Iterable[int]) -> None:
    """Kill with kill -9."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
