"""The time of a pod's start when containerd is driven directly: the yardstick for the agent's own cost.

A start is RunPodSandbox, CreateContainer and StartContainer, one after the other, with the image present; each pod is
removed before the next start, outside the measurement. `python -m benchmarks.podstart` measures a containerd of its
own, with Debian's bridge for a network; the agent's benchmark calls `raw_starts` on its own containerd.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tarmac.runtimes.cri import CriRuntime
from tarmac.runtimes.interface import ContainerConfig, Runtime, SandboxConfig
from tarmac.runtimes.parts import find_parts
from tests.support.containerd import ContainerdNode, sweep

Pod = tuple[SandboxConfig, ContainerConfig]


@dataclass(frozen=True)
class Start:
    """The seconds of each step."""

    sandbox: float
    create: float
    start: float

    @property
    def total(self) -> float:
        """The whole."""
        return self.sandbox + self.create + self.start


async def raw_starts(runtime: Runtime, handler: str, make: Callable[[], Pod], count: int = 30) -> list[Start]:
    """Start `count` pods, one after the other; the first, which warms caches, does not count."""
    return [await _one(runtime, handler, *make()) for _ in range(count + 1)][1:]


def median_total(starts: list[Start]) -> float:
    """Seconds."""
    return statistics.median(each.total for each in starts)


async def _one(runtime: Runtime, handler: str, pod: SandboxConfig, container: ContainerConfig) -> Start:
    began = time.perf_counter()
    sandbox_id = await runtime.run_sandbox(pod, handler)
    made = time.perf_counter()
    container_id = await runtime.create_container(sandbox_id, container, pod)
    created = time.perf_counter()
    await runtime.start_container(container_id)
    started = time.perf_counter()
    await runtime.stop_container(container_id, 0)
    await runtime.stop_sandbox(sandbox_id)
    await runtime.remove_sandbox(sandbox_id)
    return Start(made - began, created - made, started - created)


async def _measure(node: ContainerdNode, handlers: list[str], count: int) -> None:
    runtime = CriRuntime(node.endpoint)
    try:
        for handler in handlers:
            starts = await raw_starts(runtime, handler, lambda: (node.sandbox(), node.container()), count)
            print(_line(handler, starts))
    finally:
        await runtime.close()


def _line(handler: str, starts: list[Start]) -> str:
    totals = sorted(each.total * 1000 for each in starts)
    steps = [
        statistics.median(getattr(each, step) for each in starts) * 1000 for step in ("sandbox", "create", "start")
    ]
    parts = ", ".join(f"{name} {value:.0f}" for name, value in zip(("sandbox", "create", "start"), steps, strict=True))
    middle = statistics.median(totals)
    return f"{handler}: p50 {middle:.0f} ms of {len(totals)} ({totals[0]:.0f} to {totals[-1]:.0f}): {parts}"


def main() -> None:
    """Measure a containerd of our own."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.podstart")
    options.add_argument("--count", type=int, default=30, help="pods to start with each handler (default: %(default)s)")
    options.add_argument("--handler", choices=("runc", "gvisor"), help="only this one")
    chosen = options.parse_args()
    parts = find_parts(path="")
    sweep(parts)
    with tempfile.TemporaryDirectory(prefix="tarmac-bench-") as folder:
        node = ContainerdNode(parts, Path(folder), os.getpid())
        try:
            node.start()
            asyncio.run(_measure(node, [chosen.handler] if chosen.handler else ["runc", "gvisor"], chosen.count))
        finally:
            node.stop()


if __name__ == "__main__":
    main()
