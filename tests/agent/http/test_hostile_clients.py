"""Whatever comes behind an upgrade, the node goes on serving, keeps nothing of it, and bounds what it takes."""

from __future__ import annotations

import asyncio
import random

import aiohttp
import pytest

from tarmac.wire.channels import PORT_FORWARD_V1, TUNNELLED_SPDY, V5
from tarmac.wire.spdy import Session
from tests.agent.http.stage import Stage

_SOCKET = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a2V5\r\n"
UPGRADES = {
    "raw SPDY": f"POST /portForward/default/web HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    f"X-Stream-Protocol-Version: {PORT_FORWARD_V1}\r\nContent-Length: 0\r\n\r\n",
    "tunnelled SPDY": f"GET /portForward/default/web HTTP/1.1\r\nHost: x\r\n{_SOCKET}"
    f"Sec-WebSocket-Protocol: {TUNNELLED_SPDY}\r\n\r\n",
    "exec": f"GET /exec/default/web/main?command=cat&input=1&output=1 HTTP/1.1\r\nHost: x\r\n{_SOCKET}"
    f"Sec-WebSocket-Protocol: {V5}\r\n\r\n",
}
PINGS = {
    "raw SPDY": b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01" * 10_000,
    "tunnelled SPDY": (b"\x89\xfdabcd" + b"p" * 125) * 1000,
    "exec": (b"\x89\xfdabcd" + b"p" * 125) * 1000,
}


def blobs(seed: int) -> list[bytes]:
    """Random bytes, and valid frames with bits flipped."""
    dice = random.Random(seed)
    session = Session(server=False)
    error = session.open({"streamtype": "error", "port": "1", "requestid": "0"})
    session.open({"streamtype": "data", "port": "1", "requestid": "0"})
    session.send(error, b"x" * 100, fin=True)
    valid = session.take()
    made = [dice.randbytes(dice.randrange(1, 3000)) for _ in range(4)]
    for _ in range(4):
        flipped = bytearray(valid)
        for _ in range(dice.randrange(1, 6)):
            flipped[dice.randrange(len(flipped))] ^= 1 << dice.randrange(8)
        made.append(bytes(flipped))
    return made


@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("seed", range(4))
async def test_nothing_comes_of_nonsense(node: Stage, web: aiohttp.ClientSession, upgrade: str, seed: int) -> None:
    for blob in blobs(seed):
        reader, writer = await asyncio.open_connection("127.0.0.1", node.listener.port)
        writer.write(UPGRADES[upgrade].encode() + blob)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(blob)
        await asyncio.sleep(0)
        writer.transport.abort()
    async with web.get(f"{node.url}/healthz") as answer:
        assert await answer.text() == "ok"
    async with asyncio.timeout(5):
        while node.runtime.sessions or any(not each.is_closing() for each in node.listener.upgraded):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("upgrade", UPGRADES)
async def test_pings_without_end_cost_no_memory(node: Stage, upgrade: str) -> None:
    """A client that asks and never reads the answers is not read from any more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.listener.port)
    try:
        writer.write(UPGRADES[upgrade].encode())
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(60):
            writer.write(PINGS[upgrade])
            await asyncio.sleep(0)
        await asyncio.sleep(0.5)
        (near,) = node.listener.upgraded
        assert near.get_write_buffer_size() < 3_000_000
    finally:
        writer.transport.abort()
