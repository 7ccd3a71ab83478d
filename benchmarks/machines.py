"""The costs of virtual machines: beside the same QEMU by hand, beside none at all, and beside `cp`.

Starts and memory are of the small image that every node has; measurements with many machines, or with one that answers
at once, use guests of a few bytes (`tests.support.bootsector`). Machines by the agent and by hand take turns, so that
other load of the host affects both.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.byhand import MEMORY_MIB, by_hand
from benchmarks.nodes import Bench
from benchmarks.processes import cpu_seconds, resident_bytes
from tarmac.api.compute.names import LABEL_ACCELERATOR
from tarmac.base.tasks import Tasks
from tarmac.cli.machines.instanceendpoint import InstanceEndpoint
from tarmac.client.http import HttpConfig
from tarmac.client.targets.untyped import NODES, WORKLOADS
from tarmac.client.websockets import open_websocket
from tarmac.runtimes.interface import ConsoleOptions
from tarmac.runtimes.parts import find_machine_parts
from tarmac.runtimes.qemu.machine import Accelerator
from tarmac.runtimes.qemu.qemuruntime import QemuRuntime
from tarmac.volumes.linux.diskimages import copy_disk
from tarmac.wire.channels import V5, Channel
from tests.node.planet import machine_processes
from tests.runtimes.consoles.people import Person
from tests.support.guestimages import guest
from tests.support.qemunode import QemuNode

GUESTS: Mapping[str, bytes] = {"sleeps.raw": guest("sleeps", "hello"), "echoes.raw": guest("echoes", "hello")}
IDLE, IDLE_SECONDS = 10, 60.0
_KEYS = 50
_COPIED = 500 << 20
_BOOT_SECONDS = 300.0
_FLOOD_SECONDS = 3.0


@dataclass
class MachineStarts:
    """Seconds until the port responds, by the agent and by hand; CPU of the agent; bytes of the processes.

    The agent's CPU is its use beyond that of an idle one in the same time: a guest takes its time to boot.
    """

    agent: list[float] = field(default_factory=list[float])
    hand: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])
    resident: list[float] = field(default_factory=list[float])
    bare: list[float] = field(default_factory=list[float])


@dataclass(frozen=True)
class Crowd:
    """The agent's additional cost of ten idle machines."""

    resident_mb: float
    core: float


async def machine_starts(bench: Bench, directory: Path, count: int) -> MachineStarts:
    """Measure so many of each, in turns; the first by the agent, which gets the image, does not count."""
    found, parts = MachineStarts(), find_machine_parts()
    accelerator, idle = await offered(bench), await _at_rest(bench)
    for turn in range(count + 1):
        took, used, resident = await _start(bench, f"start{turn}")
        if turn == 0:
            continue
        found.agent.append(took)
        found.cpu.append(used - idle * took)
        found.resident.append(resident)
        for screen in (True, False):
            with by_hand(parts, accelerator, directory, screen=screen) as started:
                await asyncio.sleep(1)
                if screen:
                    found.hand.append(started.seconds)
                else:
                    found.bare.append(resident_bytes([started.pid]))
    return found


async def _start(bench: Bench, name: str) -> tuple[float, float, float]:
    """Return seconds from applied to Ready, CPU of the agent meanwhile, and bytes of the process."""
    before, began = cpu_seconds(bench.agent), perf_counter()
    await bench.client.resource(WORKLOADS).create(workload(name, "tarmac/tiny", memory=f"{MEMORY_MIB}Mi", port=22))
    await bench.until(lambda: bench.is_ready(f"{name}-"), _BOOT_SECONDS)
    took, used = perf_counter() - began, cpu_seconds(bench.agent) - before
    await asyncio.sleep(1)
    resident = resident_bytes(_processes(bench, f"{name}-"))
    await remove_workload(bench, name)
    return took, used, resident


async def idle_machines(bench: Bench) -> Crowd:
    """Measure the agent with ten of them, less the agent without."""
    before, memory = await _at_rest(bench), resident_bytes(bench.agent)
    await bench.client.resource(WORKLOADS).create(workload("idle", "bench/sleeps", replicas=IDLE))
    await bench.until(lambda: len(_processes(bench, "idle-")) == IDLE and bench.is_ready("idle-"))
    after, more = await _at_rest(bench), resident_bytes(bench.agent)
    await remove_workload(bench, "idle")
    return Crowd((more - memory) / 1e6, after - before)


async def _at_rest(bench: Bench) -> float:
    """Return the share of a core that the agent uses."""
    await asyncio.sleep(10)
    before = cpu_seconds(bench.agent)
    await asyncio.sleep(IDLE_SECONDS)
    return (cpu_seconds(bench.agent) - before) / IDLE_SECONDS


async def console_echo(bench: Bench, http: HttpConfig) -> list[float]:
    """Return the seconds from a key, through server, tunnel and agent into the guest, to the viewer's output."""
    await bench.client.resource(WORKLOADS).create(workload("echo", "bench/echoes"))
    await bench.until(lambda: bench.is_ready("echo-"))
    place = InstanceEndpoint(http, "default", bench.name_of("echo-"))
    socket = await open_websocket(http, place.path("console", stdin="true"), [V5], bench.client.randomness)
    found: list[float] = []
    try:
        for number in range(_KEYS):
            key, began = bytes([ord("a") + number % 26]), perf_counter()
            await socket.send(bytes([Channel.STDIN]), key)
            while (message := await socket.receive()) is not None:
                if message[:1] == bytes([Channel.STDOUT]) and message.endswith(key):
                    break
            found.append(perf_counter() - began)
    finally:
        socket.close()
        await remove_workload(bench, "echo")
    return found


def copies(directory: Path, count: int) -> tuple[list[float], list[float]]:
    """Return the seconds to copy an image of 500 MB to a disk, by us and by `cp --sparse=always`, both synced."""
    image, made = directory / "image.raw", directory / "disk.img"
    with image.open("wb") as file:
        for _ in range(_COPIED >> 20):
            file.write(os.urandom(1 << 20))
        file.truncate(2 * _COPIED)  # a hole of the same size
    ours, theirs = list[float](), list[float]()
    for _ in range(count):
        began = perf_counter()
        with made.open("wb") as file:
            file.truncate(3 * _COPIED)
        copy_disk(str(image), str(made))
        _sync(made)
        ours.append(perf_counter() - began)
        made.unlink()
        began = perf_counter()
        subprocess.run(["cp", "--sparse=always", image, made], check=True)
        _sync(made)
        theirs.append(perf_counter() - began)
        made.unlink()
    image.unlink()
    return ours, theirs


async def adoption(count: int) -> list[float]:
    """Return the seconds until a new agent has adopted ten machines and their monitors respond."""
    node = QemuNode()
    try:
        runtime = await node.runtime()
        for _ in range(IDLE):
            config = node.sandbox()
            sandbox = await runtime.run_sandbox(config, "vm")
            await runtime.start_container(await runtime.create_container(sandbox, node.machine("sleeps"), config))
        found: list[float] = []
        for _ in range(count):
            await runtime.close()
            began = perf_counter()
            runtime = await node.runtime()
            await _greeted(runtime)
            found.append(perf_counter() - began)
        for each in await runtime.sandboxes():
            await runtime.remove_sandbox(each.id)
        await runtime.close()
        return found
    finally:
        node.close()


async def flood(count: int) -> tuple[list[float], list[float]]:
    """Return the bytes a second of a guest that writes without end, without a viewer and with a stuck one, in turns."""
    node = QemuNode()
    tasks = Tasks()
    try:
        runtime = await node.runtime()
        tasks.begin(runtime.run(), "serial ports")
        config = node.sandbox()
        sandbox = await runtime.run_sandbox(config, "vm")
        machine = await runtime.create_container(sandbox, node.machine("counts"), config)
        await runtime.start_container(machine)
        raw = node.folders.serial(runtime.machines.known(machine))
        alone, watched = list[float](), list[float]()
        for turn in range(count):
            alone.append(await _rate(raw))
            options = ConsoleOptions(user="stuck", session=str(turn), keyboard=True)
            person = Person(await runtime.console_stream(machine, options))
            person.stream.read(False)
            watched.append(await _rate(raw))
            person.stream.close()
        await runtime.remove_sandbox(sandbox)
        await runtime.close()
        return alone, watched
    finally:
        await tasks.close()
        node.close()


async def _rate(raw: Path) -> float:
    before, began = raw.stat().st_size, perf_counter()
    await asyncio.sleep(_FLOOD_SECONDS)
    return (raw.stat().st_size - before) / (perf_counter() - began)


async def _greeted(runtime: QemuRuntime) -> None:
    lives = [runtime.machines.supervisor(each.id) for each in runtime.machines.all()]
    assert len(lives) == IDLE
    for each in lives:
        await each.greeted.wait()


def workload(name: str, image: str, *, memory: str = "128Mi", port: int = 0, replicas: int = 1) -> dict[str, Any]:
    """A Workload of machines in the one city."""
    machine: dict[str, Any] = {"volumeAttachments": [{"name": "boot"}]}
    if port:
        machine["ports"] = [{"name": "main", "port": port}]
    requests = {"cpu": "1", "memory": memory}
    spec = {
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-custom", "requests": requests},
            "virtualMachine": machine,
        },
        "networkInterfaces": [{"network": {"name": "default"}}],
        "volumes": [
            {"name": "boot", "disk": {"template": {"spec": {"populator": {"image": {"name": image}}}}}},
        ],
    }
    placement = {"name": "here", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": replicas}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": spec}, "placements": [placement]},
    }


async def remove_workload(bench: Bench, name: str) -> None:
    """Delete its machines and wait until they are gone."""
    await bench.client.resource(WORKLOADS).delete(name, "default")
    await bench.until(lambda: bench.is_gone(f"{name}-"))
    await asyncio.sleep(1)


async def offered(bench: Bench) -> Accelerator:
    """Return the accelerator of machines, once the node has probed it."""
    while True:
        node = await bench.client.resource(NODES).get(bench.city.node)
        if label := node["metadata"]["labels"].get(LABEL_ACCELERATOR):
            return "kvm" if label == "kvm" else "tcg"
        await asyncio.sleep(0.5)


def _processes(bench: Bench, prefix: str) -> list[int]:
    """Return QEMU processes of pods with this prefix."""
    found = machine_processes(bench.city.data.parent.parent)
    return [pid for pid, name in found.items() if name.startswith(prefix)]


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the ratio of the medians."""
    return statistics.median(ours) / statistics.median(theirs)
