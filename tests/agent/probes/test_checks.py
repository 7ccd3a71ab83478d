"""Network probes against healthy, failing and silent servers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.probes.checks import Checks
from tarmac.agent.probes.outcome import ProbeFault, ProbeResult
from tarmac.api.schema import JsonObject
from tarmac.runtimes.fake import FakeRuntime

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
POD = AgentPod({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {"containers": []}})


async def dial(pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    try:
        async with asyncio.timeout(timeout):
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


async def check(probe: JsonObject, container: JsonObject | None = None) -> ProbeResult:
    return await Checks(FakeRuntime(), dial).check(POD, container or {"name": "main"}, "id", probe, "127.0.0.1")


@asynccontextmanager
async def serving(serve: Serve) -> AsyncGenerator[int]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def answering(*heads: str) -> tuple[Serve, list[str]]:
    """Return a handler that sends these responses in turn, and the list of received requests."""
    asked: list[str] = []
    left = list(heads)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write((left.pop(0) if len(left) > 1 else left[0]).encode())
        await writer.drain()

    return serve, asked


OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_an_answer_up_to_399_is_a_success() -> None:
    serve, asked = answering(OK)
    async with serving(serve) as port:
        headers = [{"name": "X-Who", "value": "me"}, {"name": "Host", "value": "shop.example"}]
        outcome = await check({"httpGet": {"port": port, "path": "/healthz?deep=1", "httpHeaders": headers}})
    assert outcome.result == "success"
    request = asked[0].split("\r\n")
    assert request[0] == "GET /healthz?deep=1 HTTP/1.1"
    assert {"Host: shop.example", "X-Who: me", "User-Agent: kube-probe/1.35", "Accept: */*"} <= set(request)


async def test_other_answers_are_failures_that_do_not_repeat_the_body() -> None:
    serve, _ = answering("HTTP/1.1 503 Unavailable\r\nContent-Length: 6\r\n\r\nsecret")
    async with serving(serve) as port:
        outcome = await check({"httpGet": {"port": port}})
    assert outcome == ProbeResult("failure", "HTTP probe failed with statuscode: 503")


async def test_redirects_are_followed_at_home_only() -> None:
    serve, asked = answering("HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n", OK)
    async with serving(serve) as port:
        assert (await check({"httpGet": {"port": port, "path": "/old"}})).result == "success"
    assert [each.split()[1] for each in asked] == ["/old", "/new"]
    serve, _ = answering("HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 3\r\n\r\nbye")
    async with serving(serve) as port:
        outcome = await check({"httpGet": {"port": port}})
    assert outcome == ProbeResult("warning", "Probe terminated redirects, Response body: bye")


async def test_an_invalid_answer_is_a_failure() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with serving(silent) as port:
        outcome = await check({"httpGet": {"port": port}, "timeoutSeconds": 0.2})
        assert "context deadline exceeded" in outcome.output
    async with serving(rude) as port:
        assert (await check({"httpGet": {"port": port}})).output.endswith(": EOF")


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("HTTP/1.0 200 OK\nServer: small\n\nfine", "success"),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "success"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "success"),
        ("HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\n\r\nhalf", "warning"),
    ],
    ids=["lines without CR", "an interim answer", "two lengths", "a body without a length"],
)
async def test_an_answer_that_go_accepts_is_accepted(answer: str, result: str) -> None:
    serve, _ = answering(answer)
    async with serving(serve) as port:
        assert (await check({"httpGet": {"port": port}, "timeoutSeconds": 5})).result == result


async def test_a_redirect_reports_a_chunked_body_without_its_framing() -> None:
    head = "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nTransfer-Encoding: chunked\r\n\r\n"
    serve, _ = answering(head + "3\r\nbye\r\n0\r\n\r\n")
    async with serving(serve) as port:
        outcome = await check({"httpGet": {"port": port}})
    assert outcome == ProbeResult("warning", "Probe terminated redirects, Response body: bye")


async def test_ports_may_be_named() -> None:
    serve, _ = answering(OK)
    async with serving(serve) as port:
        container = {"name": "main", "ports": [{"name": "web", "containerPort": port}]}
        assert (await check({"httpGet": {"port": "web"}}, container)).result == "success"
        assert (await check({"tcpSocket": {"port": "web"}}, container)).result == "success"
        with pytest.raises(ProbeFault):
            await check({"tcpSocket": {"port": "other"}}, container)


async def test_a_port_that_nobody_listens_on() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outcome = await check({"tcpSocket": {"port": port}})
    assert outcome == ProbeResult("failure", f"dial tcp 127.0.0.1:{port}: connect: connection refused")


@asynccontextmanager
async def health_server(*answers: bytes | grpc.StatusCode) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """Run a gRPC server whose health service sends these responses."""
    asked: list[bytes] = []

    async def handler(request: bytes, context: Any) -> bytes:
        asked.append(request)
        answer = answers[min(len(asked), len(answers)) - 1]
        if isinstance(answer, grpc.StatusCode):
            await context.abort(answer, "no")
        assert isinstance(answer, bytes)
        return answer

    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(handler)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port, asked
    finally:
        await server.stop(None)


async def test_a_grpc_service_is_asked_in_its_own_language() -> None:
    async with health_server(b"\x08\x01", b"\x08\x02", b"", grpc.StatusCode.NOT_FOUND) as (port, asked):
        probe = {"grpc": {"port": port, "service": "shop.Orders"}, "timeoutSeconds": 5}
        assert (await check(probe)).result == "success"
        assert asked == [b"\x0a\x0bshop.Orders"]
        assert (await check(probe)).output == 'service unhealthy (responded with "NOT_SERVING")'
        assert (await check(probe)).output == 'service unhealthy (responded with "UNKNOWN")'
        assert (await check(probe)).result == "failure"


async def test_a_server_that_does_not_speak_grpc() -> None:
    serve, _ = answering(OK)
    async with serving(serve) as port:
        outcome = await check({"grpc": {"port": port}, "timeoutSeconds": 1})
    assert outcome.result == "failure"
