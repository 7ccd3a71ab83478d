"""Idle streams are closed after a timeout; active ones stay open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from tarmac.wire.channels import V5, Channel
from tests.agent.http.stage import Stage, stage

IDLE_SECONDS = 0.4


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with stage(tmp_path, IDLE_SECONDS) as running:
        yield running


async def run(node: Stage, web: aiohttp.ClientSession, *command: str) -> aiohttp.ClientWebSocketResponse:
    query = "&".join(("input=1", "output=1", *(f"command={word}" for word in command)))
    return await web.ws_connect(f"{node.url}/exec/default/web/main?{query}", protocols=[V5])


async def test_an_idle_command_is_cut_off(node: Stage, web: aiohttp.ClientSession) -> None:
    async with await run(node, web, "cat") as client:
        end = await asyncio.wait_for(client.receive(), 10)
        assert end.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)


async def test_a_command_that_is_spoken_to_goes_on(node: Stage, web: aiohttp.ClientSession) -> None:
    async with await run(node, web, "cat") as client:
        for _ in range(6):
            await asyncio.sleep(IDLE_SECONDS / 2)
            await client.send_bytes(bytes((Channel.STDIN,)) + b"hello")
            assert (await client.receive_bytes())[1:] == b"hello"


async def test_a_forwarded_port_is_cut_off_as_well(node: Stage) -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as pod:
        port = pod.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", node.listener.port)
        head = f"GET /tarmac/v1/dial/default/web/u1/{port} HTTP/1.1\r\nHost: x\r\n"
        writer.write(f"{head}Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
