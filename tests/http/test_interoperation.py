"""Real clients: curl, http.client and aiohttp."""

from __future__ import annotations

import asyncio
import http.client
import shutil

import aiohttp
import pytest

from tarmac.http.messages import Request, Response, Stream, StreamResponse
from tests.http.conftest import Server


def handler(request: Request) -> Response | StreamResponse:
    if request.path == "/stream":

        def start(stream: Stream):
            for n in range(3):
                stream.write(b"%d\n" % n)
            stream.close()
            return lambda: None

        return StreamResponse(start)
    return Response(200, b"%b %d " % (request.method.encode(), len(request.body)) + b"x" * 200_000)


async def curl(server: Server, *arguments: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        "curl",
        "--silent",
        "--show-error",
        "--fail",
        "--cacert",
        str(server.pki.ca_file),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output


async def test_curl(server: Server) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    await server.start(handler)
    assert (await curl(server, server.url + "/")).startswith(b"GET 0 ")
    assert (await curl(server, "--compressed", server.url + "/")).startswith(b"GET 0 ")
    assert await curl(server, server.url + "/stream") == b"0\n1\n2\n"
    large = "@" + __file__
    assert (await curl(server, "-H", "Expect: 100-continue", "--data-binary", large, server.url)).startswith(b"POST ")
    assert b"HTTP/1.1 200 OK" in await curl(server, "--head", server.url + "/")


async def test_http_client_reuses_its_connection(server: Server) -> None:
    listener = await server.start(handler)

    def talk() -> list[bytes]:
        if server.mode == "plain":
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=server.client_context())
        bodies: list[bytes] = []
        for path, body in (("/", None), ("/stream", None), ("/", b"abc"), ("/", iter([b"ab", b"cd"]))):
            connection.request("POST" if body else "GET", path, body=body)
            bodies.append(connection.getresponse().read()[:7])
        assert len(listener.connections) == 1
        connection.close()
        return bodies

    assert await asyncio.to_thread(talk) == [b"GET 0 x", b"0\n1\n2\n", b"POST 3 ", b"POST 4 "]


async def test_aiohttp_with_many_requests_at_once(server: Server) -> None:
    await server.start(handler)
    context = server.client_context()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context or True, limit=8)) as session:

        async def one(n: int) -> bytes:
            async with session.post(server.url + "/", data=b"x" * n) as answer:
                return (await answer.read())[:9]

        bodies = await asyncio.gather(*(one(n) for n in range(40)))
        assert [body.split(b" ")[1] for body in bodies] == [b"%d" % n for n in range(40)]
        async with session.get(server.url + "/stream") as answer:
            assert [line async for line in answer.content] == [b"0\n", b"1\n", b"2\n"]
    await asyncio.sleep(0.01)
