"""Starts the ends of connections (`benchmarks.wire`) and of floods (`benchmarks.flood`) in network namespaces."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from tools.cache import ROOT


async def took(work: object) -> float:
    """Return the seconds of a change of a datapath, which must have no failures."""
    began = perf_counter()
    answer = await work  # type: ignore[misc]
    assert not isinstance(answer, dict) or not answer, answer
    return perf_counter() - began


@contextmanager
def serving(namespace: Path, port: int) -> Generator[None]:
    """Answer at a port of a namespace until the block ends."""
    with _started(namespace, "benchmarks.wire", "serve", "0.0.0.0", str(port)):
        yield


@contextmanager
def flooding(namespace: Path, hardware: str, address: str, port: int, rate: int) -> Generator[list[float]]:
    """Send SYNs at a rate until the block ends; the list gets the rate that was reached."""
    reached = list[float]()
    with _started(namespace, "benchmarks.flood", hardware, address, str(port), str(rate)) as process:
        yield reached
        process.kill()
        assert process.stdout is not None
        reached += [float(line) for line in process.stdout.read().split()][-1:]


async def measured(namespace: Path, what: str, address: str, port: int, much: float) -> float:
    """Return the figure that a client in a namespace prints."""
    command = [f"--net={namespace}", sys.executable, "-m", "benchmarks.wire", what, address, str(port), str(much)]
    process = await asyncio.create_subprocess_exec("nsenter", *command, cwd=ROOT, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0, f"{what} to {address} failed"
    return float(out)


@contextmanager
def _started(namespace: Path, *program: str) -> Generator[subprocess.Popen[bytes]]:
    command = ["nsenter", f"--net={namespace}", sys.executable, "-m", *program]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
