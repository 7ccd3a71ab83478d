"""After hostile data on an upgraded connection the node keeps serving, retains none of it, and bounds its buffers."""

from __future__ import annotations

import asyncio
import gc
import random
import struct

import aiohttp
import pytest

from tarmac.wire.channels import PORT_FORWARD_V1, TUNNELLED_SPDY, V5
from tarmac.wire.spdy import SpdySession
from tarmac.wire.spdy.frames import ControlFrameType, control_frame
from tarmac.wire.spdy.headers import HeaderEncoder
from tests.agent.http.spdyclient import SpdyClient
from tests.agent.http.stage import Stage
from tests.support.loopwatch import loop_never_held

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
    """Return random bytes, and valid frames with flipped bits."""
    dice = random.Random(seed)
    session = SpdySession(server=False)
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
    """The node stops reading from a client that sends pings and never reads the responses."""
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


SMALL = {
    "raw SPDY": control_frame(ControlFrameType.PING, b"\0\0\0\1"),
    "tunnelled SPDY": b"\x82\x80abcd",
    "exec": b"\x82\x80abcd",
}


@pytest.mark.parametrize("upgrade", UPGRADES)
async def test_many_small_frames_do_not_hold_up_the_others(node: Stage, upgrade: str) -> None:
    flood = SMALL[upgrade] * (2_000_000 // len(SMALL[upgrade]))
    reader, writer = await asyncio.open_connection("127.0.0.1", node.listener.port)
    try:
        writer.write(UPGRADES[upgrade].encode())
        await reader.readuntil(b"\r\n\r\n")
        reading = asyncio.ensure_future(_discard(reader))
        with loop_never_held():
            writer.write(flood)
            await asyncio.wait_for(writer.drain(), 20)
            await asyncio.sleep(0.2)
        reading.cancel()
    finally:
        writer.transport.abort()


async def _discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


async def test_headers_that_inflate_do_not_hold_up_the_others(node: Stage) -> None:
    """Each of these opens a stream with the largest accepted header, in a few dozen bytes."""
    encoder, frames = HeaderEncoder(), list[bytes]()
    for stream in range(1, 20_001, 2):
        block = encoder.encode({"streamtype": "error", "requestid": str(stream), "x": "y" * 8000})
        frames.append(control_frame(ControlFrameType.SYN_STREAM, struct.pack(">IIBB", stream, 0, 0, 0) + block))
    reader, writer = await asyncio.open_connection("127.0.0.1", node.listener.port)
    try:
        writer.write(UPGRADES["raw SPDY"].encode())
        await reader.readuntil(b"\r\n\r\n")
        reading = asyncio.ensure_future(_discard(reader))
        with loop_never_held():
            writer.write(b"".join(frames))
            await asyncio.wait_for(writer.drain(), 20)
            await asyncio.sleep(0.2)
        reading.cancel()
    finally:
        writer.transport.abort()


async def test_streams_that_are_opened_and_reset_leave_nothing(node: Stage) -> None:
    from tarmac.agent.http.forwarding.spdystreams import SpdyForward

    client = await SpdyClient.raw(node.listener.port, "/portForward/default/web", PORT_FORWARD_V1)
    for number in range(2000):
        stream = client.session.open({"streamtype": "error", "port": "1", "requestid": f"r{number}"})
        client.session.reset(stream)
    client.flush()
    last = await client.open({"streamtype": "error", "port": "1", "requestid": "last"})
    assert last in client.replied
    (forward,) = [each for each in gc.get_objects() if isinstance(each, SpdyForward)]
    assert forward._errors == {"last": last}  # pyright: ignore[reportPrivateUsage]
    await client.close()
