"""`tarmac logs -f` of fifty logs while the nodes that have them and the server are killed, one after the other."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tarmac.base.clock import SystemClock, rfc3339_micro
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tests.agent.http.stage import StagePods
from tests.cli.lognode import PODS
from tests.server.streams.planet import add_node, add_pod
from tests.soak import SOAK
from tests.support.tarmac_process import TarmacProcess

STREAMS, NODES = 50, ("n1", "n2")
KILLS = 60 if SOAK else 4


class Nodes:
    """Two processes, each with half of the logs."""

    def __init__(self, server: TarmacProcess, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, node: str) -> None:
        where = (self._server.url, str(self._server.data_dir / "pki"), node, str(self._folder))
        self._processes[node] = subprocess.Popen([sys.executable, "-m", "tests.cli.lognode", *where])

    def kill(self, node: str) -> None:
        process = self._processes.pop(node)
        process.kill()
        process.wait()

    def one(self, node: str) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return the functions that kill and start a node."""
        return partial(self.kill, node), partial(self.start, node)

    def kill_all(self) -> None:
        for node in list(self._processes):
            self.kill(node)


class Logs:
    """The lines that the pods have written so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.written: dict[str, list[str]] = {f"p{number}": [] for number in range(STREAMS)}

    def write(self, lines: int) -> None:
        for _ in range(lines):
            for pod, written in self.written.items():
                written.append(f"{pod} {len(written)}")
                with (self._folder / f"{pod}.log").open("a") as log:
                    log.write(f"{rfc3339_micro(SystemClock().now())} stdout F {written[-1]}\n")

    def is_all(self, shown: list[str]) -> bool:
        return len(shown) >= sum(map(len, self.written.values()))


async def populate(server: TarmacProcess, folder: Path, pods: list[str]) -> None:
    client = Client(HttpTransport(load(str(server.kubeconfig)).http))
    known = StagePods(folder, [])
    for node in NODES:
        await add_node(client, node)
    while not (await client.get_json("/api/v1/namespaces/default/serviceaccounts"))["items"]:
        await asyncio.sleep(0.05)
    for number, pod in enumerate(pods):
        await add_pod(client, known, pod, NODES[number % len(NODES)])
    (folder / PODS).write_text(json.dumps(known.known))
    await client.close()


@contextmanager
def town(tmp_path: Path) -> Generator[tuple[TarmacProcess, Nodes, Logs]]:
    folder = tmp_path / "logs"
    folder.mkdir()
    logs = Logs(folder)
    logs.write(1)
    with TarmacProcess(tmp_path / "data", "--controllers", "serviceaccount,namespace") as server:
        nodes = Nodes(server, folder)
        try:
            asyncio.run(populate(server, folder, list(logs.written)))
            for node in NODES:
                nodes.start(node)
            yield server, nodes, logs
        finally:
            nodes.kill_all()


async def follow(server: TarmacProcess, nodes: Nodes, logs: Logs) -> tuple[list[str], int]:
    """Return the output while one process after the other is killed and restarted, and the exit code."""
    command = [sys.executable, "-m", "tarmac.apps.main", "logs", "-f", "-l", "!none", "--tail=-1"]
    process = await asyncio.create_subprocess_exec(
        *command, "--kubeconfig", str(server.kubeconfig), stdout=asyncio.subprocess.PIPE
    )
    shown: list[str] = []
    try:
        reading = asyncio.ensure_future(_read(process, shown))
        while not logs.is_all(shown):  # all are followed
            await asyncio.sleep(0.05)
        chance, killed = Random(5), [(server.kill, server.start), *map(nodes.one, NODES)]
        for number in range(KILLS):
            logs.write(3)
            await asyncio.sleep(chance.uniform(0, 0.4))
            kill, start = killed[number % len(killed)]
            kill()
            logs.write(3)
            start()
        logs.write(3)
        while not logs.is_all(shown):
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
        await reading
        return shown, await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _read(process: asyncio.subprocess.Process, shown: list[str]) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        shown.append(line.decode().partition(" | ")[2].rstrip("\n"))


@pytest.mark.soak(minutes=4)
@pytest.mark.timeout(600 if SOAK else 180)
def test_every_line_of_fifty_logs_comes_once_and_in_its_order(tmp_path: Path) -> None:
    with town(tmp_path) as (server, nodes, logs):
        shown, code = asyncio.run(follow(server, nodes, logs))
    assert {pod: [line for line in shown if line.split()[0] == pod] for pod in logs.written} == logs.written
    assert code == 0
