"""Hostile responses of a tenant's server to a probe: any size, any content, until the timeout."""

from __future__ import annotations

import asyncio
import os
import struct

import pytest

from tarmac.http.responseprotocol import MAX_HEAD
from tests.agent.probes.test_checks import check, serving
from tests.support.loopwatch import loop_never_held

PREFACE = 24 + 9  # length of HTTP/2's preface and of the first frame's header


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000 + b"HTTP/1.1 200 OK\r\n"],
    ids=["headers", "interim answers"],
)
async def test_a_head_without_end_is_not_read_to_the_end(head: bytes) -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head)
        while True:
            line = f"X-{sent}: {'y' * 1000}\r\n".encode()
            writer.write(line)
            await writer.drain()
            sent += len(line)

    async with serving(serve) as port, asyncio.timeout(10):
        outcome = await check({"httpGet": {"port": port}, "timeoutSeconds": 60})
    assert outcome.result == "failure"
    assert f"exceeded {MAX_HEAD} bytes" in outcome.output
    assert sent < 16_000_000  # the rest is in the kernel's buffers


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 " + b"2" * 5000 + b" OK\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nContent-Length: " + b"9" * 5000 + b"\r\nLocation: http://[\r\n\r\n",
        b"HTTP/1.1 500 \xff\xfe\r\nContent-Length: -1\r\n\r\n",
        b"\x00" * 100_000,
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:99999999/\r\n\r\n",
    ],
)
async def test_numbers_and_places_without_sense_are_failures(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with serving(serve) as port:
        outcome = await check({"httpGet": {"port": port}, "timeoutSeconds": 5})
    assert outcome.result in ("failure", "warning")


EMPTY = struct.pack(">HBBBI", 0, 0, 0, 0, 1)  # an empty DATA frame
PING = struct.pack(">HBBBI", 0, 8, 6, 0, 0) + b"pingping"


@pytest.mark.parametrize("frame", [EMPTY, PING], ids=["empty data", "pings"])
async def test_a_flood_of_small_http2_frames_does_not_hold_the_loop(frame: bytes) -> None:
    flood = frame * (1_000_000 // len(frame))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(PREFACE)
        for _ in range(4):
            writer.write(flood)
            await writer.drain()

    async with serving(serve) as port:
        with loop_never_held():
            outcome = await check({"grpc": {"port": port}, "timeoutSeconds": 1})
    assert outcome.result == "failure"


@pytest.mark.parametrize("seed", range(20))
async def test_any_bytes_for_an_answer_are_a_failure(seed: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(struct.pack(">HBBBI", 0, 0, 4, 0, 0) + os.urandom(3000) if seed % 2 else os.urandom(3000))
        await writer.drain()

    async with serving(serve) as port:
        for probe in ({"grpc": {"port": port}}, {"httpGet": {"port": port}}):
            assert (await check({**probe, "timeoutSeconds": 1})).result == "failure"
