"""`tarmac logs` as users run it: a process of its own, a server, and a node whose tunnel breaks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest

from tarmac.base.clock import SystemClock, rfc3339_micro
from tests.server.streams.planet import Planet, planet


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[Planet]:
    async with planet(tmp_path) as running:
        yield running


async def start(world: Planet, *arguments: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, "KUBECONFIG": str(world.kubeconfig), "HOME": str(world.home)}
    command = [sys.executable, "-m", "tarmac.apps.main", "logs", *arguments]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=environment)


def write(world: Planet, text: str) -> None:
    with (world.pods.logs / "1.log").open("a") as log:
        log.write(f"{rfc3339_micro(SystemClock().now())} stdout F {text}\n")


@pytest.mark.timeout(180)
async def test_each_line_comes_once_while_the_tunnel_breaks(world: Planet) -> None:
    write(world, "line 0")
    process = await start(world, "pod/web", "-f")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            found = [await process.stdout.readline()]  # it follows now
            for number in range(1, 60):
                write(world, f"line {number}")
                if number % 12 == 0:
                    for transport in world.running.listener.upgraded:
                        transport.abort()
                await asyncio.sleep(0.02)
            found += [await process.stdout.readline() for _ in range(59)]
            process.send_signal(signal.SIGINT)
            rest, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    assert found == [b"line %d\n" % number for number in range(60)]
    assert (rest, process.returncode) == (b"", 0)


async def test_exit_codes(world: Planet) -> None:
    write(world, "hello")
    started = [
        await start(world, *words) for words in (("pod/web",), ("wbe",), ("pod/web", "-f", "-p"), ("pod/web", "-p"))
    ]
    ended = [(await each.communicate(), each.returncode) for each in started]
    assert [code for _, code in ended] == [0, 1, 2, 1]
    assert ended[0][0] == (b"hello\n", b"")
    assert b'error: workloads.compute.datumapis.com "wbe" not found' in ended[1][0][1]
    assert b"give one of them" in ended[2][0][1]
    assert b'previous terminated container "main" in pod "web" not found' in ended[3][0][1]
