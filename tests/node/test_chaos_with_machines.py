"""Agent, containerd, server and machines themselves are killed at random, with virtual machines among the pods.

Only machines whose process was killed restart, every line of every serial port is in its log once and in order, and
when all are gone the kernel has the same objects as before: no process, tap, mount, cgroup, namespace, file or
descriptor more. 5 kills, 200 in a soak; at least two in five hit a node in the middle of an operation.

The guests are a few bytes that write a line with its number eighteen times a second, so that many of them cost little.
Two in each city stay from the first kill to the last, of which one is never killed itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tarmac.client.targets.untyped import WORKLOADS
from tests.node.chaos import (
    CITIES,
    IN_FLIGHT,
    Chaos,
    attack,
    containers_of,
    eventually,
    insist,
    kill_all,
    planet_of,
    runs,
)
from tests.node.planet import Json, Planet, machine_processes
from tests.node.test_machines import ready_to_boot
from tests.soak import SOAK
from tests.support.guestimages import guest, machine_image, more_images

KILLS = 200 if SOAK else 5
MACHINES = 4  # that come and go at the same time
TICKS, SAYS = guest("ticks", "hello"), "hello"
MOST_KILLED = 3  # times that one machine is killed: each time it is restarted later
LABEL = "compute.datumapis.com/workload-name"

pytestmark = [pytest.mark.root, pytest.mark.soak(minutes=45), pytest.mark.timeout(0 if SOAK else 400)]


@dataclass
class ChaosWithMachines(Chaos):
    """Chaos in which wanted pods with names of machines are Workloads of one machine."""

    kept: set[str] = field(default_factory=set[str])
    spared: set[str] = field(default_factory=set[str])  # those of the kept that are never killed
    killed: Counter[str] = field(default_factory=Counter[str])  # processes of machines, by pod

    async def create(self) -> None:
        machines = sum(each.startswith("vm-") for each in self.wanted)
        if machines < MACHINES and self.dice.random() < 0.5:
            await self.create_machine(self.dice.choice(self.cities).code)
        else:
            await super().create()

    async def create_machine(self, city: str, *, keep: bool = False) -> str:
        """Create one more machine; return its Workload."""
        name = f"vm-{self.made}"
        self.made += 1
        await insist(lambda: self.client.resource(WORKLOADS).create(machine(name, city)))
        (self.kept if keep else self.wanted).add(name)
        return name

    async def delete_one(self, name: str) -> None:
        if name.startswith("vm-"):
            await insist(lambda: self.client.resource(WORKLOADS).delete(name, "default"))
        else:
            await super().delete_one(name)

    async def kill(self) -> None:
        processes = self.processes()
        if not processes or self.dice.random() > 0.4:
            await super().kill()
            return
        pid, name = self.dice.choice(processes)
        self.kills["machine"] += 1
        self.killed[name] += 1
        there = self.found()[name]["spec"]["nodeName"] if name in self.found() else ""
        city = next((each for each in self.cities if each.node == there), self.cities[0])
        self.in_flight += any(self.moving(item.object, city, "machine") for item in self.pods.cache.items())
        kill_all([pid])

    def processes(self) -> list[tuple[int, str]]:
        """Return processes of machines that may be killed, with the names of their pods. None is killed too often."""
        spared = tuple(f"{each}-" for each in self.spared)
        return sorted(
            (pid, name)
            for pid, name in machine_processes(self.process.data_dir).items()
            if not name.startswith(spared) and self.killed[name] < MOST_KILLED
        )

    def amiss(self) -> list[str]:
        found, wanted = self.found(), self.wanted | self.kept
        missing = wanted - {_asked(each) for each in found.values()}
        wrong = [name for name, each in found.items() if _asked(each) not in wanted or not runs(each)]
        return [f"{name} is missing" for name in missing] + [
            f"{name}: {found[name]['metadata']} {found[name].get('status')}" for name in wrong
        ]

    async def clear(self) -> None:
        self.wanted, self.kept = self.wanted | self.kept, set()
        await super().clear()


def _asked(each: Json) -> str:
    """Return the name of the Workload or Pod that was created for this pod."""
    return each["metadata"].get("labels", {}).get(LABEL) or each["metadata"]["name"]


def machine(name: str, city: str) -> dict[str, Any]:
    """A machine that writes its number of clock ticks."""
    disk = {"template": {"spec": {"populator": {"image": {"name": "test/ticks"}}}}}
    spec = {
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "500m", "memory": "128Mi"}},
            "virtualMachine": {"volumeAttachments": [{"name": "boot"}]},
        },
        "networkInterfaces": [{"network": {"name": "default"}}],
        "volumes": [{"name": "boot", "disk": disk}],
    }
    placement = {"name": "here", "cityCodes": [city], "scaleSettings": {"minReplicas": 1}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": spec}, "placements": [placement]},
    }


@pytest.fixture
def planet(tmp_path: Path) -> Iterator[Planet]:
    with more_images(tmp_path / "parts", {"ticks.raw": TICKS}), planet_of(tmp_path) as process:
        made = Planet(process, tmp_path)
        for code in ("dfw", "lhr"):
            ready_to_boot(made, f"{code}-0")
        made.apply(machine_image("test-ticks", "ticks.raw", TICKS))
        yield made


async def test_only_what_was_killed_restarts_no_line_is_lost_and_nothing_leaks(
    planet: Planet, capfd: pytest.CaptureFixture[str]
) -> None:
    async with attack(planet.process, ChaosWithMachines) as chaos:
        await _warm_up(chaos)
        before = await asyncio.to_thread(chaos.traces)
        for city in chaos.cities:
            chaos.spared.add(await chaos.create_machine(city.code, keep=True))
            await chaos.create_machine(city.code, keep=True)
        await eventually(chaos.amiss, "the machines that stay run")
        staying = machine_processes(planet.data_dir)
        assert len(staying) == 4
        await chaos.storm(KILLS)
        await eventually(chaos.amiss, "what is wanted runs")
        unharmed = {pid: name for pid, name in staying.items() if not chaos.killed[name]}
        assert len(unharmed) >= len(CITIES)
        assert unharmed.items() <= machine_processes(planet.data_dir).items(), "a machine has another process"
        _only_the_killed_restarted(chaos)
        lines = await asyncio.to_thread(_lines_of_all, chaos, planet)
        await chaos.clear()
        await chaos.nothing_left(before)
    with capfd.disabled():
        print(f"\n{sum(chaos.kills.values())} kills {dict(chaos.kills)}, {chaos.in_flight} amid an operation; ", end="")
        print(f"{chaos.made} made, {len(chaos.first_seen)} seen running, {len(chaos.killed)} machines killed; ", end="")
        print(f"{lines} lines of serial ports, none lost or doubled; nothing left")
    assert chaos.kills["machine"] > 0
    assert chaos.in_flight >= IN_FLIGHT * KILLS


async def _warm_up(chaos: ChaosWithMachines) -> None:
    """Create and delete a pod and a machine in each city, so that shared objects exist before the first kill."""
    for city in chaos.cities:
        await chaos.create_machine(city.code)
    for _ in range(4):
        await Chaos.create(chaos)
    await eventually(chaos.amiss, "the first pods run")
    await chaos.clear()


def _only_the_killed_restarted(chaos: ChaosWithMachines) -> None:
    for name, each in chaos.found().items():
        [status] = each["status"]["containerStatuses"]
        assert status["restartCount"] <= chaos.killed[name], f"{name} restarted"
        if not chaos.killed[name]:
            assert containers_of(each) == chaos.first_seen[name], f"{name} was replaced"


def _lines_of_all(chaos: ChaosWithMachines, planet: Planet) -> int:
    """Return the number of lines: a machine's log has each line once and in order, after any kills."""
    machines = [
        each["metadata"]["name"] for each in chaos.found().values() if LABEL in each["metadata"].get("labels", {})
    ]
    assert machines
    return sum(_lines(name, planet) for name in machines)


def _lines(name: str, planet: Planet) -> int:
    said, *ticks = _log(name, planet).splitlines()
    assert said == SAYS
    assert ticks == [f"{number:08X}" for number in range(len(ticks))], name
    return len(ticks)


def _log(name: str, planet: Planet) -> str:
    """Return its log, as soon as the node's agent is back: the last kill may have hit it."""
    until = time.monotonic() + 30
    while (done := planet.kubectl.run("logs", name)).code:
        assert time.monotonic() < until, str(done)
        time.sleep(0.5)
    return done.out
