"""Runtimes trust their input, so the node parses, bounds and re-encodes everything that a client sends."""

from __future__ import annotations

import asyncio
import json
import random
import struct
from collections.abc import Iterator

import aiohttp
import pytest

from tarmac.agent.http.bridging.commandclient import MAX_BYTES, TerminalSizes
from tarmac.http.pacing import CHUNK_SIZE
from tarmac.runtimes.interface import TerminalSize
from tarmac.wire.channels import STREAM_TYPE, V4, V5, Channel
from tarmac.wire.spdy.frames import Control, ControlFrameType, Data, SpdyFrameReader, control_frame
from tarmac.wire.spdy.headers import HeaderDecoder
from tarmac.wire.violations import ProtocolViolation
from tests.agent.http.spdyclient import SpdyClient
from tests.agent.http.stage import Stage, pod

# A SETTINGS frame that claims 16 MiB and four billion settings: runtimes allocate memory for them before they read.
TWELVE_BYTES = bytes.fromhex("80 03 00 04 00 ff ff ff ff ff ff ff")
EXEC = "/exec/default/web/main?command=cat&input=1&output=1"
TTY = f"{EXEC}&tty=1"
PING = control_frame(ControlFrameType.PING, struct.pack(">I", 1))
HOSTILE = {
    "settings without end": TWELVE_BYTES,
    "more settings than there are": control_frame(ControlFrameType.SETTINGS, b"\xff" * 12),
    "a control frame of 16 MiB": bytes.fromhex("80 03 00 01 00 ff ff ff"),
    "another version": bytes.fromhex("80 02 00 04 00 00 00 04 00 00 00 00"),
    "an empty reset": control_frame(ControlFrameType.RST_STREAM, b""),
    "a window that overflows": control_frame(ControlFrameType.WINDOW_UPDATE, b"\0\0\0\1\xff\xff\xff\xff"),
    "headers that are no zlib": control_frame(ControlFrameType.SYN_STREAM, b"\0\0\0\x0b" + b"\0" * 6 + b"\xff" * 30),
}
PASSED_OVER = {
    "unknown frames": control_frame(11, b"x" * 1000),  # pyright: ignore[reportArgumentType] - that is the point
    "data of the largest size": bytes.fromhex("00 00 00 63 00 ff ff ff") + b"x" * 70_000,
    "data of no stream": bytes.fromhex("00 00 00 63 01 00 00 00"),
    "pings": PING * 200,
    "settings": control_frame(ControlFrameType.SETTINGS, struct.pack(">III", 1, 4, 100)),
    "headers of no stream": control_frame(ControlFrameType.GOAWAY, struct.pack(">II", 0, 0)),
}


async def streams_of(client: SpdyClient, *names: str) -> list[int]:
    return [await client.open({STREAM_TYPE: name}) for name in names]


async def emptied(node: Stage) -> None:
    """Wait until no session is left."""
    async with asyncio.timeout(5):
        while node.runtime.sessions:
            await asyncio.sleep(0.01)


def frames(heard: bytes) -> Iterator[Control | Data]:
    yield from SpdyFrameReader().feed(heard)


def assert_only_what_we_write(heard: bytearray) -> None:
    """Assert that the runtime received only streams and small pieces of data from the node, no bytes of the client."""
    headers, streams = HeaderDecoder(), set[int]()
    for frame in frames(bytes(heard)):
        if isinstance(frame, Control):
            assert frame.type == ControlFrameType.SYN_STREAM
            assert len(frame.payload) < 200
            assert headers.decode(frame.payload[10:])[STREAM_TYPE] in {each.stream_type for each in Channel}
            streams.add(int.from_bytes(frame.payload[:4]))
        else:
            assert frame.stream in streams
            assert len(frame.data) <= CHUNK_SIZE


@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.parametrize("before", [True, False], ids=["at once", "after the streams"])
async def test_frames_that_end_a_runtime_end_the_client_instead(node: Stage, attack: str, before: bool) -> None:
    client = await SpdyClient.raw(node.listener.port, EXEC, V4)
    if not before:
        await streams_of(client, "error", "stdin", "stdout")
    client.writer.write(HOSTILE[attack])
    async with asyncio.timeout(5):
        while await client.receive():
            pass
    await emptied(node)
    assert_only_what_we_write(node.runtime.heard)
    assert HOSTILE[attack] not in bytes(node.runtime.heard)
    await client.close()


@pytest.mark.parametrize("noise", PASSED_OVER)
async def test_frames_that_mean_nothing_stay_with_us(node: Stage, noise: str) -> None:
    client = await SpdyClient.raw(node.listener.port, EXEC, V4)
    await streams_of(client, "error", "stdin", "stdout")
    client.writer.write(PASSED_OVER[noise])
    await client.close()
    await emptied(node)
    assert_only_what_we_write(node.runtime.heard)


@pytest.mark.parametrize("seed", range(8))
async def test_damaged_frames_never_pass(node: Stage, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(6):
        client = await SpdyClient.raw(node.listener.port, TTY, V4)
        streams = await streams_of(client, "error", "stdin", "stdout", "resize")
        for stream in streams:
            client.session.send(stream, dice.randbytes(40), fin=dice.random() < 0.3)
        damaged = bytearray(client.session.take() + PING)
        for _ in range(dice.randrange(1, 8)):
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        client.writer.write(bytes(damaged))
        client.writer.write_eof()
        await asyncio.wait_for(client.reader.read(), 5)
        await client.close()
        await emptied(node)
        assert_only_what_we_write(node.runtime.heard)
        node.runtime.heard.clear()


async def test_the_size_of_a_terminal_has_to_end(node: Stage, web: aiohttp.ClientSession) -> None:
    """Runtimes buffer a JSON string until it ends."""
    async with web.ws_connect(f"{node.url}{TTY}", protocols=[V5]) as socket:
        await socket.send_bytes(b'\x04{"Width":80,"Height":24}')
        await socket.send_bytes(b'\x04{"Width":"' + b"9" * 5000)
        async for _ in socket:
            pass
        assert socket.close_code == 1002
    await emptied(node)
    assert_only_what_we_write(node.runtime.heard)
    assert b'{"Width":80,"Height":24}' in bytes(node.runtime.heard)
    assert b"99999" not in bytes(node.runtime.heard)


@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        ([b'{"Width":80,"Height":24}'], [TerminalSize(80, 24)]),
        ([b'{"Wid', b'th":8,"Height":2}\n'], [TerminalSize(8, 2)]),
        ([b'{"Width":1,"Height":1}{"Width":2,"Height":2}'], [TerminalSize(2, 2)]),
        ([b'{"Width":70000,"Height":1}'], []),
        ([b"nonsense}", b'{"Width":3,"Height":4}'], [TerminalSize(3, 4)]),
        ([b'{"Width":3,"Height":4,"x":"' + b"y" * 300 + b'"}'], []),
    ],
)
def test_of_sizes_only_numbers_pass(sent: list[bytes], passed: list[TerminalSize]) -> None:
    sizes = TerminalSizes()
    assert [size for each in sent if (size := sizes.read(each)) is not None] == passed


def test_a_size_that_does_not_end_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation):
        TerminalSizes().read(b"{" * (MAX_BYTES + 1))


async def test_input_ends_and_output_and_outcome_arrive(node: Stage) -> None:
    client = await SpdyClient.raw(node.listener.port, EXEC, V4)
    error, stdin, stdout = await streams_of(client, "error", "stdin", "stdout")
    data = random.Random(1).randbytes(3_000_000)
    sending = asyncio.ensure_future(_send(client, stdin, data))
    await client.until_finished(error, stdout)
    await sending
    assert client.heard[stdout] == data
    assert json.loads(client.heard[error])["status"] == "Success"
    assert_only_what_we_write(node.runtime.heard)
    await client.close()


async def _send(client: SpdyClient, stream: int, data: bytes) -> None:
    for start in range(0, len(data), 50_000):
        client.send(stream, data[start : start + 50_000])
        await client.writer.drain()
    client.send(stream, b"", fin=True)


async def test_a_client_that_opens_no_streams_is_cut_off(node: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.agent.http.bridging.spdyclient.OPEN_TIMEOUT", 0.05)
    client = await SpdyClient.raw(node.listener.port, EXEC, V4)
    assert await asyncio.wait_for(client.reader.read(), 5) == b""
    await emptied(node)
    await client.close()


async def test_a_client_without_a_terminal_may_attach_to_one(node: Stage) -> None:
    """A client opens stderr, which a terminal lacks, and no resize; runtimes and the node count streams."""
    node.pods.known = [pod(tty=True)]
    node.runtime.attach_command = ("sh", "-c", "test -t 1 && echo terminal")
    client = await SpdyClient.raw(node.listener.port, "/attach/default/web/main?output=1&error=1", V4)
    error, stdout, stderr = await streams_of(client, "error", "stdout", "stderr")
    await client.until_finished(error, stdout, stderr)
    assert b"terminal" in client.heard[stdout]
    await client.close()


async def test_streams_that_nobody_knows_are_refused(node: Stage) -> None:
    client = await SpdyClient.raw(node.listener.port, EXEC, V4)
    (first,) = await streams_of(client, "stdin")
    again, odd = await streams_of(client, "stdin", "gossip")
    assert client.finished == {again: True, odd: True}
    assert first not in client.finished
    await client.close()


async def test_a_version_without_a_status_is_refused(node: Stage) -> None:
    client = await SpdyClient.raw(node.listener.port, EXEC, "channel.k8s.io")
    assert client.head.startswith(b"HTTP/1.1 403")
    await client.close()
