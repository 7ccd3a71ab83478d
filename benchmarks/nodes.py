"""The costs of an agent: the time of a pod from bound to Running, beside raw calls to the same containerd.

The pods of both are alike: one container, its image present, a network by CNI. The agent's pods get Tarmac's network,
the raw ones Debian's bridge plugin, whose configuration is put before Tarmac's meanwhile. They take turns, so that
other load of the machine affects both. The agent's CPU is that of its process and of the CNI calls into it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.podstart import raw_starts
from benchmarks.processes import cpu_seconds, resident_bytes
from tarmac.apps.cities.agents import agents_of
from tarmac.apps.cities.layout import CityLayout, city_of
from tarmac.apps.cities.removing import underlay_of
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.informer import Informer, Informers
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import PODS
from tarmac.runtimes.cri.criruntime import CriRuntime
from tarmac.runtimes.interface import ContainerConfig, PodIdentity, SandboxConfig
from tarmac.runtimes.parts import find_parts, parts_folder
from tests.node.planet import busybox, down, pod
from tests.support.tarmac_process import TarmacProcess

IMAGE = "registry.local/tarmac/busybox:1"
SLEEP = ("sleep", "1000000")
ROUNDS, EACH = 3, 10
FULL = 20
IDLE_SECONDS = 120.0
_AFTERWARDS = 0.3  # seconds in which a start, or a removal, ends in the agent, too
_BRIDGE = "tmbench0"


@dataclass
class Starts:
    """Seconds of each start, by the agent and raw, and CPU seconds of the agent for each.

    `call` is the part outside the agent's process: containerd's calls into it.
    """

    agent: list[float] = field(default_factory=list[float])
    raw: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])
    call: float = 0.0

    @property
    def ratio(self) -> float:
        """The ratio of a watcher's waiting time to the bare calls."""
        return statistics.median(self.agent) / statistics.median(self.raw)


@dataclass(frozen=True)
class Idle:
    """An agent with 20 idle pods."""

    resident_mb: float
    core: float  # share of one


class Bench:
    """One city, and its clients."""

    def __init__(self, process: TarmacProcess, client: Client, informer: Informer[Any]) -> None:
        underlay = underlay_of(process.data_dir)
        self.city: CityLayout = city_of("DFW", underlay, process.data_dir)
        self.client = client
        self.runtime = CriRuntime(self.city.containerd(find_parts()).endpoint)
        self._informer = informer
        self._changed = asyncio.Event()
        self._bound: dict[str, float] = {}
        self._running: dict[str, float] = {}
        self._numbers = iter(range(1_000_000))
        informer.on_change(lambda _old, new: self._seen(new))

    @property
    def agent(self) -> list[int]:
        """The agent's process."""
        return agents_of(self.city.data.parent.parent)

    async def start_pod(self, handler: str, annotations: dict[str, str] | None = None, **more: Any) -> str:
        """Start a pod and wait until it runs; return its name."""
        name = f"bench-{next(self._numbers)}"
        container = busybox("main", "exec sleep 1000000", **more)
        body = pod(name, container, runtimeClassName=handler, enableServiceLinks=False)
        body["metadata"] |= {"namespace": "default", "annotations": annotations or {}}
        await self.client.resource(PODS).create(body)
        await self.until(lambda: name in self._running)
        return name

    def waited(self, name: str) -> float:
        """Return the seconds from bound to Running, by the watch."""
        return self._running[name] - self._bound[name]

    async def remove_pod(self, name: str) -> None:
        """Delete a pod and wait until it is gone."""
        await self.client.resource(PODS).delete(name, "default")
        await self.until(lambda: self._informer.cache.get(f"default/{name}") is None)

    def raw_pod(self) -> tuple[SandboxConfig, ContainerConfig]:
        """Return a pod for the bare calls, like the agent's."""
        identity = PodIdentity("default", f"raw-{next(self._numbers)}", os.urandom(8).hex())
        sandbox = SandboxConfig(identity, "raw", str(self.city.data / "rawlogs"), f"{self.city.cgroup}/raw")
        return sandbox, ContainerConfig("main", 0, IMAGE, IMAGE, command=SLEEP, log_path="main.log")

    def _seen(self, new: Any) -> None:
        if new is not None:
            name, now = new.object["metadata"]["name"], perf_counter()
            if new.object["spec"].get("nodeName"):
                self._bound.setdefault(name, now)
            if new.object.get("status", {}).get("phase") == "Running":
                self._running.setdefault(name, now)
        self._changed.set()

    def is_ready(self, prefix: str) -> bool:
        """Return true if there are pods with this prefix, and all of them are ready."""
        found = [item.object for item in self._informer.cache.items()]
        wanted = [each for each in found if each["metadata"]["name"].startswith(prefix)]
        return bool(wanted) and all(_is_ready(each) for each in wanted)

    def is_gone(self, prefix: str) -> bool:
        """Return true if there is no pod with this prefix."""
        return not any(item.object["metadata"]["name"].startswith(prefix) for item in self._informer.cache.items())

    def name_of(self, prefix: str) -> str:
        """Return a pod with this prefix."""
        names = [item.object["metadata"]["name"] for item in self._informer.cache.items()]
        return next(each for each in names if each.startswith(prefix))

    async def until(self, true: Callable[[], bool], seconds: float = 120) -> None:
        """Wait until the condition holds."""
        async with asyncio.timeout(seconds):
            while not true():
                self._changed.clear()
                await self._changed.wait()


def _is_ready(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def starts(bench: Bench, handler: str) -> Starts:
    """Measure 30 starts of each kind, in turns."""
    found = Starts(call=_cni_call_cost(bench.city))
    await bench.remove_pod(await bench.start_pod(handler))
    for _ in range(ROUNDS):
        for _ in range(EACH):
            await _start(bench, found, handler)
        async with _debians_bridge(bench.city):
            with _held(bench.agent):
                raw = await raw_starts(bench.runtime, handler, bench.raw_pod, EACH)
        found.raw += [each.total for each in raw]
    return found


async def starts_in_turns(bench: Bench, handler: str, kinds: Mapping[str, dict[str, Any]]) -> dict[str, Starts]:
    """Measure 30 starts of each kind of pod, by the agent alone."""
    found = {kind: Starts(call=_cni_call_cost(bench.city)) for kind in kinds}
    for more in kinds.values():
        await bench.remove_pod(await bench.start_pod(handler, **more))
    for _ in range(ROUNDS * EACH):
        for kind, more in kinds.items():
            await _start(bench, found[kind], handler, **more)
    return found


async def _start(bench: Bench, found: Starts, handler: str, **more: Any) -> None:
    """Start one pod and remove it; record its cost."""
    before = cpu_seconds(bench.agent)
    name = await bench.start_pod(handler, **more)
    await asyncio.sleep(_AFTERWARDS)
    found.cpu.append(cpu_seconds(bench.agent) - before + found.call)
    found.agent.append(bench.waited(name))
    await bench.remove_pod(name)
    await asyncio.sleep(_AFTERWARDS)


async def idle(bench: Bench) -> Idle:
    """Measure 20 pods, half of them with a probe, without work."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 10}
    probed: tuple[dict[str, Any], ...] = ({}, {"livenessProbe": probe})
    names = [await bench.start_pod("runc", **probed[number % 2]) for number in range(FULL)]
    await asyncio.sleep(10)
    before = cpu_seconds(bench.agent)
    await asyncio.sleep(IDLE_SECONDS)
    used = cpu_seconds(bench.agent) - before
    found = Idle(resident_bytes(bench.agent) / 1e6, used / IDLE_SECONDS)
    for name in names:
        await bench.remove_pod(name)
    return found


@asynccontextmanager
async def bench(directory: Path, *flags: str) -> AsyncGenerator[Bench]:
    """Yield a city to measure in, removed afterwards."""
    data = directory / "node"
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with TarmacProcess(data, "--runtime", "containerd", "--cities", "DFW", *flags, command="up") as process:
            client = Client(HttpTransport(load(str(process.kubeconfig)).http))
            informers = Informers(client)
            informer = informers.informer(PODS, namespace="default")
            watching = asyncio.create_task(informers.run())
            await informer.synced()
            made = Bench(process, client, informer)
            try:
                yield made
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
                await made.runtime.close()
                await client.close()
    finally:
        left = down(data)
        if left.returncode:
            raise RuntimeError(left.stderr)


@asynccontextmanager
async def _debians_bridge(city: CityLayout) -> AsyncGenerator[None]:
    """Give sandboxes a network from Debian's plugins; containerd uses the first file it finds."""
    settings = city.containerd(find_parts())
    plugins = parts_folder() / "cni"
    links = [settings.cni_bin / name for name in ("bridge", "host-local")]
    for link in links:
        link.symlink_to((plugins / link.name).resolve())
    ranges = [[{"subnet": "10.250.0.0/16"}], [{"subnet": "fd00:fa::/64"}]]
    local = {"type": "host-local", "dataDir": str(city.run / "ipam"), "ranges": ranges}
    routes = {"routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
    bridge = {"type": "bridge", "bridge": _BRIDGE, "isGateway": True, "ipam": {**local, **routes}}
    file = settings.cni_conf / "00-bench.conflist"
    file.write_text(json.dumps({"cniVersion": "0.4.0", "name": "bench", "plugins": [bridge]}))
    await asyncio.sleep(1)  # containerd watches the folder
    try:
        yield
    finally:
        file.unlink()
        for link in links:
            link.unlink()
        inside = ["nsenter", f"--net={city.host.namespace}"]
        gone = [*inside, "ip", "link", "delete", _BRIDGE]
        await asyncio.to_thread(subprocess.run, gone, check=False, capture_output=True)
        await asyncio.sleep(1)


@contextmanager
def _held(agent: list[int]) -> Generator[None]:
    """Keep the agent from removing the raw pods, as it does with unknown ones."""
    for pid in agent:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in agent:
            os.kill(pid, signal.SIGCONT)


def _cni_call_cost(city: CityLayout) -> float:
    """Return the CPU seconds of the programs that containerd runs to reach the agent, for one pod."""
    programs = [path for path in city.containerd(find_parts()).cni_bin.iterdir() if not path.is_symlink()]
    return sum(statistics.median(_cpu_of(program) for _ in range(5)) for program in programs)


def _cpu_of(program: Path) -> float:
    """A query for a missing sandbox goes all the way to the agent and back."""
    question = {"CNI_COMMAND": "CHECK", "CNI_CONTAINERID": "none"}
    process = subprocess.Popen([program], env=question, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime
