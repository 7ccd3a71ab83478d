"""exec over raw SPDY, as a real API server requests it: the client gets the runtime's own connection."""

from __future__ import annotations

import asyncio
import json

from tarmac.wire.channels import STREAM_TYPE, V4
from tests.agent.http.spdyclient import SpdyClient
from tests.agent.http.stage import Stage

VERSIONS = f"{V4}, v3.channel.k8s.io"


async def test_the_streams_of_a_command(node: Stage) -> None:
    path = "/exec/default/web/main?command=tr&command=a-z&command=A-Z&input=1&output=1"
    client = await SpdyClient.raw(node.listener.port, path, VERSIONS)
    assert client.head.startswith(b"HTTP/1.1 101")
    assert f"X-Stream-Protocol-Version: {V4}\r\n".encode() in client.head
    error, stdin, stdout = [await client.open({STREAM_TYPE: name}) for name in ("error", "stdin", "stdout")]
    client.send(stdin, b"shout")
    client.send(stdin, b"!", fin=True)
    await client.until_finished(error, stdout)
    assert client.heard[stdout] == b"SHOUT!"
    assert json.loads(client.heard[error])["status"] == "Success"
    await client.close()


async def test_a_client_that_goes_takes_the_command_with_it(node: Stage) -> None:
    path = "/exec/default/web/main?command=sleep&command=1000&output=1"
    client = await SpdyClient.raw(node.listener.port, path, VERSIONS)
    for name in ("error", "stdout"):
        await client.open({STREAM_TYPE: name})
    await client.close()
    async with asyncio.timeout(5):
        while node.runtime.sessions:
            await asyncio.sleep(0.01)


async def test_bytes_that_are_no_spdy_end_the_connection(node: Stage) -> None:
    client = await SpdyClient.raw(node.listener.port, "/exec/default/web/main?command=cat&output=1", VERSIONS)
    client.writer.write(b"\x80\x09nonsense" * 10)
    assert await asyncio.wait_for(client.reader.read(), 5) == b""
    await client.close()


async def test_a_request_without_an_upgrade_is_refused(node: Stage) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", node.listener.port)
    writer.write(b"POST /exec/default/web/main?command=cat&output=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()
    await writer.wait_closed()
