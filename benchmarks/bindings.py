"""The scheduler's rate: waiting pods, existing nodes, one Binding each until every pod has its node.

`python -m benchmarks.bindings NODES PODS KIND` runs once in a process of its own, so that runs do not inherit each
other's memory, and prints a line of JSON. The kind is `plain`; or `classed`, for pods that request classes and
exclusive CPUs; or `crowded`, for the same while a class is nine tenths full. The composition is that of `tarmac
server`: SQLite store, RBAC (the scheduler acts under its own role), audit, validation. Nodes and pods exist before the
scheduler starts; the clock runs from its first binding to the last, and every binding is durable when it counts.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal, cast

import msgspec
import uvloop

from benchmarks import classed
from tarmac.apps.control_plane import CONTROLLING, STARTING, Address, Chosen, Running, control_plane, local_transport
from tarmac.apps.layout import make_layout
from tarmac.base.gates import CLASS_RESOURCES
from tarmac.client.client import Client
from tarmac.client.targets.untyped import NODES, PODS
from tarmac.controllers.context import Settings
from tarmac.controllers.manager import ControllerManager

Kind = Literal["plain", "classed", "crowded"]

BUCKET = "core/pods"
AT_ONCE = 200
CPUS = 32
OURS = b'"name":"pod-'  # not of earlier objects
POLL_SECONDS = 0.01


class Bound(msgspec.Struct):
    """Results of one run."""

    nodes: int
    pods: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Bindings per second."""
        return self.pods / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU of the process for each pod: deciding, writing, and processing the events."""
        return self.cpu_seconds / self.pods * 1e6


def bind(nodes: int, pods: int, kind: Kind = "plain") -> Bound:
    """Run once in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.bindings", str(nodes), str(pods), kind]
    return msgspec.json.decode(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, type=Bound)


async def _run(directory: Path, nodes: int, pods: int, kind: Kind) -> Bound:
    layout = make_layout(argparse.Namespace(data_dir=directory, store=""))
    async with control_plane(
        layout, Address("127.0.0.1", 0), Chosen("serviceaccount"), features={CLASS_RESOURCES} if kind != "plain" else ()
    ) as running:
        client = Client(local_transport(running.server, STARTING))
        await _until(lambda: running.store.get("core/serviceaccounts", "default/default") is not None)
        places = classed.places(nodes, pods) if kind != "plain" else 0
        await _in_batches(lambda number: _join(client, _node(number, places)), nodes)
        if kind == "crowded":
            filling = nodes * 9 // 10
            await _in_batches(lambda number: client.resource(PODS).create(classed.filler(number, places)), filling)
        await _in_batches(lambda number: client.resource(PODS).create(_pod(number, kind)), pods)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        settings = Settings(class_resources=kind != "plain")
        manager = ControllerManager(
            Client(local_transport(running.server, CONTROLLING)), "scheduler", settings=settings
        )
        task = asyncio.create_task(manager.run())
        try:
            return await _measure(running, nodes, pods)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def _measure(running: Running, nodes: int, pods: int) -> Bound:
    bound = 0
    begin = cpu = 0.0

    def count(events: Any) -> None:
        nonlocal bound, begin, cpu
        if not bound:
            begin, cpu = perf_counter(), process_time()
        bound += sum(b'"nodeName":"' in event.entry.raw and OURS in event.entry.raw for event in events)

    running.store.subscribe(BUCKET, count)
    await _until(lambda: bound >= pods)
    result = Bound(nodes, pods, perf_counter() - begin, process_time() - cpu)
    entries = running.store.list(BUCKET).entries
    assert all(b'"nodeName":"' in entry.raw for entry in entries)
    return result


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not done():  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)


async def _in_batches(make: Callable[[int], Awaitable[Any]], count: int) -> None:
    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*(make(number) for number in range(first, min(first + AT_ONCE, count))))


async def _join(client: Client, node: dict[str, Any]) -> None:
    """Register a node; remove the taint of every new node, as the node controller does."""
    await client.resource(NODES).create(node)
    await client.resource(NODES).patch(node["metadata"]["name"], {"spec": {"taints": None}})


def _node(number: int, places: int) -> dict[str, Any]:
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 10}"}
    amounts = {"cpu": str(CPUS), "memory": "128Gi", "pods": "250"}
    if places:  # a hundred nodes must take a quarter of the pods on exclusive CPUs
        amounts = {"cpu": str(4 * CPUS), "memory": "128Gi", "pods": "500"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {
            **(classed.status(places) if places else {}),
            "capacity": amounts | (classed.given_away(4 * CPUS - 2) if places else {}),
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Here"}],
        },
    }


def _pod(number: int, kind: Kind) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    container = {"name": "web", "image": "docker.io/library/nginx:1.27", "resources": resources}
    pod = {
        "metadata": {"name": f"pod-{number}", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"schedulerName": "tarmac", "containers": [container]},
    }
    return pod if kind == "plain" else classed.ask(pod, number)


def main() -> int:
    """Run once; print the result."""
    sys.setswitchinterval(0.0005)
    nodes, pods, kind = int(sys.argv[1]), int(sys.argv[2]), cast("Kind", sys.argv[3])
    with tempfile.TemporaryDirectory(prefix="tarmac-bindings-") as directory:
        result = uvloop.run(_run(Path(directory), nodes, pods, kind))
    print(msgspec.json.encode(result).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
