"""Port-forward in its three protocols, and single connections for the API server's proxies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import aiohttp
import pytest

from tarmac.wire.channels import PORT, PORT_FORWARD_V1, REQUEST_ID, STREAM_TYPE, TUNNELLED_SPDY, V4
from tarmac.wire.spdy import SpdySession, StreamData, StreamFinished
from tests.agent.http.spdyclient import SpdyClient
from tests.agent.http.stage import Stage

FORWARD = "/portForward/default/web"
Serve = Callable[[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]], Awaitable[int]]


@pytest.fixture
async def pod_serves() -> AsyncGenerator[Serve]:
    """Return a function that starts a server in the pod and returns its port."""
    servers: list[asyncio.Server] = []

    async def start(handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> int:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await handler(reader, writer)
            except (ConnectionError, asyncio.CancelledError):
                pass
            finally:
                writer.close()

        servers.append(await asyncio.start_server(handle, "127.0.0.1", 0))
        return servers[-1].sockets[0].getsockname()[1]

    yield start
    for server in servers:
        server.close()


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond after the end of the input, which needs half-closed connections."""
    writer.write((await reader.read()).upper())
    await writer.drain()


async def pair(client: SpdyClient, port: int, request: str) -> tuple[int, int]:
    headers = {PORT: str(port), REQUEST_ID: request}
    error = await client.open({STREAM_TYPE: "error", **headers})
    client.send(error, b"", fin=True)
    return error, await client.open({STREAM_TYPE: "data", **headers})


async def test_each_pair_of_streams_is_a_connection(node: Stage, pod_serves: Serve) -> None:
    port = await pod_serves(shout)
    client = await SpdyClient.raw(node.listener.port, FORWARD, PORT_FORWARD_V1)
    pairs = [await pair(client, port, str(number)) for number in range(3)]
    for number, (_, data) in enumerate(pairs):
        client.send(data, f"hello {number}".encode(), fin=True)
    await client.until_finished(*(stream for each in pairs for stream in each))
    assert [client.heard[data] for _, data in pairs] == [b"HELLO 0", b"HELLO 1", b"HELLO 2"]
    assert [client.heard[error] for error, _ in pairs] == [b"", b"", b""]
    await client.close()


async def test_a_port_where_nobody_listens_is_told_on_the_error_stream(node: Stage) -> None:
    client = await SpdyClient.raw(node.listener.port, FORWARD, PORT_FORWARD_V1)
    error, data = await pair(client, 1, "0")
    await client.until_finished(error, data)
    assert b"failed to connect to port 1" in client.heard[error]
    assert client.finished[data] is True
    await client.close()


async def test_streams_without_sense_are_refused_and_the_others_live_on(node: Stage, pod_serves: Serve) -> None:
    client = await SpdyClient.raw(node.listener.port, FORWARD, PORT_FORWARD_V1)
    lonely = await client.open({STREAM_TYPE: "data", PORT: "80", REQUEST_ID: "9"})
    odd = await client.open({STREAM_TYPE: "gossip", PORT: "80"})
    error = await client.open({STREAM_TYPE: "error", PORT: "x", REQUEST_ID: "8"})
    far = await client.open({STREAM_TYPE: "data", PORT: "99999", REQUEST_ID: "8"})
    assert [client.finished.get(stream) for stream in (lonely, odd, far)] == [True, True, True]
    assert error not in client.finished
    error, data = await pair(client, await pod_serves(shout), "1")
    client.send(data, b"still here", fin=True)
    await client.until_finished(error, data)
    assert client.heard[data] == b"STILL HERE"
    await client.close()


async def test_a_client_that_goes_closes_its_connections(node: Stage, pod_serves: Serve) -> None:
    gone = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hi")
        try:
            await reader.read()
        finally:
            gone.set()

    client = await SpdyClient.raw(node.listener.port, FORWARD, PORT_FORWARD_V1)
    _, data = await pair(client, await pod_serves(wait), "0")
    while client.heard[data] != b"hi":
        await client.receive()
    await client.close()
    await asyncio.wait_for(gone.wait(), 5)


async def test_a_client_that_does_not_read_holds_up_the_pod(node: Stage, pod_serves: Serve) -> None:
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    client = await SpdyClient.raw(node.listener.port, FORWARD, PORT_FORWARD_V1)
    port = await pod_serves(pour)
    await pair(client, port, "0")
    await asyncio.sleep(0.3)
    for number in range(1, 20):  # more streams must not raise the limit
        for kind in ("error", "data"):
            client.session.open({STREAM_TYPE: kind, PORT: str(port), REQUEST_ID: str(number)})
    client.flush()
    before = -1
    async with asyncio.timeout(15):
        while sent != before:
            before = sent
            await asyncio.sleep(0.5)
    assert sent < 200_000_000  # the kernel's buffers of twenty connections
    assert max(each.get_write_buffer_size() for each in node.listener.upgraded) < 2_000_000
    client.writer.transport.abort()


async def test_a_pod_that_does_not_read_holds_up_the_client(node: Stage, pod_serves: Serve) -> None:
    release = asyncio.Event()
    counted = 0

    async def later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal counted
        await release.wait()
        while data := await reader.read(65536):
            counted += len(data)

    client = await SpdyClient.raw(node.listener.port, FORWARD, PORT_FORWARD_V1)
    error, data = await pair(client, await pod_serves(later), "0")
    total = 32 * 1024 * 1024
    for _ in range(total // 65536):
        client.send(data, b"y" * 65536)
    client.send(data, b"", fin=True)
    await asyncio.sleep(0.3)
    assert client.writer.transport.get_write_buffer_size() > total // 2
    release.set()
    await client.until_finished(error, data)
    assert counted == total
    await client.close()


async def test_spdy_may_come_inside_a_websocket(node: Stage, web: aiohttp.ClientSession, pod_serves: Serve) -> None:
    port = await pod_serves(shout)
    async with web.ws_connect(node.url + FORWARD, protocols=[TUNNELLED_SPDY]) as socket:
        assert socket.protocol == TUNNELLED_SPDY
        session = SpdySession(server=False)
        headers = {PORT: str(port), REQUEST_ID: "0"}
        error = session.open({STREAM_TYPE: "error", **headers})
        data = session.open({STREAM_TYPE: "data", **headers})
        await socket.send_bytes(session.take())
        session.receive((await socket.receive()).data)
        session.send(data, b"in a tunnel", fin=True)
        await socket.send_bytes(session.take())
        heard, finished = b"", set[int]()
        while finished != {error, data}:
            for event in session.receive((await socket.receive(5)).data):
                if isinstance(event, StreamData):
                    heard += event.data
                elif isinstance(event, StreamFinished):
                    finished.add(event.stream)
    assert heard == b"IN A TUNNEL"


async def test_older_clients_use_pairs_of_channels(node: Stage, web: aiohttp.ClientSession, pod_serves: Serve) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())

    port = await pod_serves(echo)
    url = f"{node.url}{FORWARD}?port={port}&port=1"
    async with web.ws_connect(url, protocols=[V4]) as socket:
        await socket.send_bytes(b"\x00hello\n")
        channels: dict[int, bytes] = {}
        async for message in socket:
            channels[message.data[0]] = channels.get(message.data[0], b"") + message.data[1:]
    marks = {number: number_port.to_bytes(2, "little") for number, number_port in enumerate((port, port, 1, 1))}
    assert channels[0] == marks[0] + b"HELLO\n"
    assert channels[1] == marks[1]
    assert channels[2] == marks[2]
    assert channels[3].startswith(marks[3] + b"failed to connect to port 1")


async def test_one_connection_can_be_dialled_as_it_is(node: Stage, pod_serves: Serve) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"first ")
        writer.write((await reader.readline()).upper())

    port = await pod_serves(greet)
    path = f"/tarmac/v1/dial/default/web/u1/{port}"
    reader, writer = await asyncio.open_connection("127.0.0.1", node.listener.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    writer.write(b"hello\n")
    assert await reader.read() == b"first HELLO\n"
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/portForward/default/none", {}, 404),
        (FORWARD, {}, 400),
        ("/tarmac/v1/dial/default/web/u1/1", {"Connection": "Upgrade", "Upgrade": "tcp"}, 502),
        ("/tarmac/v1/dial/default/web/u2/1", {"Connection": "Upgrade", "Upgrade": "tcp"}, 404),
        ("/tarmac/v1/other", {}, 404),
    ],
)
async def test_refusals(
    node: Stage, web: aiohttp.ClientSession, path: str, headers: dict[str, str], status: int
) -> None:
    async with web.get(node.url + path, headers=headers) as answer:
        assert answer.status == status


async def test_websockets_without_ports_or_with_foreign_protocols_are_refused(
    node: Stage, web: aiohttp.ClientSession
) -> None:
    for query, protocol, status in (("", V4, 400), ("?port=0", V4, 400), ("?port=80", "v1.none", 403)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await web.ws_connect(node.url + FORWARD + query, protocols=[protocol])
        assert caught.value.status == status
