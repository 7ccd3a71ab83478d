"""Streams and logs of real containers: containerd's SPDY server, with runc and gVisor behind it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tarmac.api.schema import JsonObject
from tarmac.http.listener import serve
from tarmac.wire.channels import STREAM_TYPE, V4, V5
from tests.agent.http.spdyclient import SpdyClient
from tests.agent.http.stage import StageFigures, StagePods, api_of, pod
from tests.agent.http.test_commands_by_websocket import heard, outcome, query
from tests.runtimes.machine import RealMachine, Running
from tests.support.containerd import ContainerdNode

pytestmark = [pytest.mark.root]
EXEC = "/exec/default/web/main"
TALKS = "echo started; while read line; do echo heard $line; done; echo ended >&2; sleep 3600"


class RealPods(StagePods):
    """One pod with a real container."""

    running: Running

    def container_id(self, pod: JsonObject, container: str, previous: bool = False) -> str | None:
        return self.running.id

    def log_path(self, pod: JsonObject, container: str, previous: bool = False) -> Path | None:
        return Path(self.running.pod.log_directory) / "main.log"


@dataclass
class Real:
    """A node's API above containerd."""

    machine: RealMachine
    running: Running
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(params=["runc", "gvisor"])
async def real(request: pytest.FixtureRequest, containerd_node: ContainerdNode, tmp_path: Path) -> AsyncGenerator[Real]:
    machine = RealMachine(containerd_node, request.param)
    config = containerd_node.container("main", "sh", "-c", TALKS, stdin=True, stdin_once=True)
    pods = RealPods(tmp_path, [pod()])
    listener = await serve(api_of(pods, machine.runtime, StageFigures()).handle, None)
    try:
        pods.running = await machine.run(config)
        yield Real(machine, pods.running, listener.port)
    finally:
        await listener.stop(0.1)
        await machine.clean()


async def test_everything_about_streams(real: Real, web: aiohttp.ClientSession) -> None:
    """One container serves all checks: a start takes longer than the rest."""
    await _exit_codes(real, web)
    await _end_of_input(real, web)
    await _much_data(real, web)
    await _terminal(real, web)
    await _raw_spdy(real)
    await _attaching_and_logs(real, web)


async def _exit_codes(real: Real, web: aiohttp.ClientSession) -> None:
    command = query("sh", "-c", "echo out; echo err >%262; exit 3", output=1, error=1)
    async with web.ws_connect(f"{real.url}{EXEC}?{command}", protocols=[V5]) as socket:
        channels = await heard(socket)
    assert (channels[1], channels[2]) == (b"out\n", b"err\n")
    assert json.loads(channels[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    async with web.ws_connect(f"{real.url}{EXEC}?{query('/none', output=1)}", protocols=[V5]) as socket:
        assert outcome(await heard(socket))["status"] == "Failure"


async def _end_of_input(real: Real, web: aiohttp.ClientSession) -> None:
    async with web.ws_connect(f"{real.url}{EXEC}?{query('wc', '-c', input=1, output=1)}", protocols=[V5]) as socket:
        await socket.send_bytes(b"\x00twelve bytes")
        await socket.send_bytes(b"\xff\x00")
        channels = await heard(socket)
    assert channels[1].strip() == b"12"
    assert outcome(channels)["status"] == "Success"


async def _much_data(real: Real, web: aiohttp.ClientSession) -> None:
    data = os.urandom(4_000_000)
    async with web.ws_connect(f"{real.url}{EXEC}?{query('cat', input=1, output=1)}", protocols=[V5]) as socket:

        async def send() -> None:
            for start in range(0, len(data), 50_000):
                await socket.send_bytes(b"\x00" + data[start : start + 50_000])
            await socket.send_bytes(b"\xff\x00")

        sending = asyncio.ensure_future(send())
        channels = await heard(socket)
        await sending
    assert channels[1] == data


async def _terminal(real: Real, web: aiohttp.ClientSession) -> None:
    command = query("sh", "-c", "read x; stty size; test -t 0 %26%26 echo terminal", input=1, output=1, tty=1)
    async with web.ws_connect(f"{real.url}{EXEC}?{command}", protocols=[V5]) as socket:
        await socket.send_bytes(b"\x04" + json.dumps({"Width": 93, "Height": 31}).encode())
        await asyncio.sleep(0.5)
        await socket.send_bytes(b"\x00go\r")
        channels = await heard(socket)
    assert b"31 93" in channels[1]
    assert b"terminal" in channels[1]


async def _raw_spdy(real: Real) -> None:
    path = f"{EXEC}?command=tr&command=a-z&command=A-Z&input=1&output=1&error=1"
    client = await SpdyClient.raw(real.port, path, V4)
    assert client.head.startswith(b"HTTP/1.1 101")
    names = ("error", "stdin", "stdout", "stderr")
    error, stdin, stdout, _ = [await client.open({STREAM_TYPE: name}) for name in names]
    client.send(stdin, b"shout", fin=True)
    await client.until_finished(error, stdout)
    assert client.heard[stdout] == b"SHOUT"
    assert json.loads(client.heard[error])["status"] == "Success"
    await client.close()


async def _attaching_and_logs(real: Real, web: aiohttp.ClientSession) -> None:
    lines: list[bytes] = []

    async def follow() -> None:
        async with web.get(f"{real.url}/containerLogs/default/web/main?follow=true") as answer:
            async for line in answer.content:
                lines.append(line)

    following = asyncio.ensure_future(follow())
    url = f"{real.url}/attach/default/web/main?input=1&output=1&error=1"
    async with web.ws_connect(url, protocols=[V5]) as socket:
        await socket.send_bytes(b"\x00you\n")
        async with asyncio.timeout(10):
            while b"heard you\n" not in (await socket.receive()).data:
                pass
        await socket.send_bytes(b"\xff\x00")
        async with asyncio.timeout(10):
            while b"ended\n" not in lines:
                await asyncio.sleep(0.05)
    await real.machine.runtime.stop_container(real.running.id, 0)
    async with asyncio.timeout(10):
        await following
    assert lines == [b"started\n", b"heard you\n", b"ended\n"]


async def test_a_log_is_followed_over_containerds_rotation(real: Real, web: aiohttp.ClientSession) -> None:
    path = Path(real.running.pod.log_directory) / "main.log"
    url = f"{real.url}/attach/default/web/main?input=1"
    async with (
        web.ws_connect(url, protocols=[V5]) as socket,
        web.get(f"{real.url}/containerLogs/default/web/main?follow=true") as answer,
    ):
        async with asyncio.timeout(20):
            assert await answer.content.readline() == b"started\n"
            path.rename(f"{path}.20261115-120000")
            await real.machine.runtime.reopen_log(real.running.id)
            await socket.send_bytes(b"\x00again\n")
            assert await answer.content.readline() == b"heard again\n"
    async with web.get(f"{real.url}/containerLogs/default/web/main") as answer:
        assert (await answer.text()).startswith("started\nheard again\n")
