"""Odd methods, headers, framings and request lines on every route: a response or an error, never a 5xx of our own.

They use a real socket without TLS, so that thousands take seconds; every client counts as the administrator, so that
its requests pass authorization.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest

from tarmac.api.catalog import build_catalog
from tarmac.apps.control_plane import Address, Chosen, Running, control_plane
from tarmac.apps.layout import Layout
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Listener, serve
from tarmac.http.messages import Answer, Request, Response, UpgradeResponse
from tests.fuzz.extremes import encoded
from tests.fuzz.oddities import METHODS, requests, simple_requests
from tests.fuzz.test_extremes import ADMIN, POD
from tests.fuzz.test_random_input import collection

DOCUMENTS = [
    "/", "/api", "/apis", "/apis/apps", "/api/v1", "/version", "/healthz", "/livez/ping", "/readyz", "/metrics",
    "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openid/v1/jwks", "/.well-known/openid-configuration",
    "/nowhere", "/tarmac/v1/tunnels/a", "/api/v1/watch/pods", "/api/v1/proxy/nodes/a",
]  # fmt: skip
THOROUGHLY = [
    "/", "/version", "/metrics", "/nowhere", "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/a", "/api/v1/namespaces/default/pods/a/exec",
    "/api/v1/namespaces/default/pods/a/log", "/api/v1/namespaces/default/pods/a/proxy/x", "/api/v1/nodes/a/proxy/x",
    "/api/v1/namespaces/default/pods/a/eviction", "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
]  # fmt: skip
# Responses for a missing node, or one that is not ready, as Kubernetes has them, too.
OF_NODES = re.compile(rb"error dialing backend|no such host|is not ready|not reachable|has no address|address")
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


class Watched:
    """The server behind a listener without TLS, which records failures and requested paths."""

    def __init__(self, running: Running) -> None:
        self._handle = running.server.handle
        self.failures: list[str] = []
        self.paths: set[str] = set()

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        request.user = ADMIN
        self.paths.add(request.path)
        answer = self._handle(request)
        return self._later(request, answer) if inspect.isawaitable(answer) else self._noted(request, answer)

    async def _later(self, request: Request, answer: Awaitable[Answer]) -> Answer:
        return self._noted(request, await answer)

    def _noted(self, request: Request, answer: Answer) -> Answer:
        if isinstance(answer, Response) and answer.status >= 500:
            body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
            if answer.status == 500 or not OF_NODES.search(body):
                headers = dict(list(request.headers.items())[:6])
                self.failures.append(
                    f"{request.method} {request.path[:100]} {headers}\n→ {answer.status} {body[:300]!r}"
                )
        if isinstance(answer, UpgradeResponse):
            assert request.info.verb == "watch", "no upgrade can succeed: there is no node"
        return answer


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    layout = Layout(tmp_path, tmp_path / "pki", tmp_path / "secrets.key", "memory://")
    async with control_plane(layout, Address("127.0.0.1", 0), Chosen("certificates")) as running:
        yield running


@pytest.fixture
def watched(running: Running) -> Watched:
    return Watched(running)


@pytest.fixture
async def listener(watched: Watched) -> AsyncIterator[Listener]:
    listener = await serve(watched.handle, None, "127.0.0.1", 0, ListenerLimits())
    yield listener
    await listener.stop(grace=1)


async def send(listener: Listener, data: bytes, *, all_of_it: bool = True) -> bytes:
    """Send, close unless the last request says otherwise, and return the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    try:
        writer.write(data)
        if all_of_it:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def routes() -> list[str]:
    found = list(DOCUMENTS)
    for resource in build_catalog():
        root = collection(resource)
        found += [root, f"{root}/a", *[f"{root}/a/{subresource.name}" for subresource in resource.subresources]]
    return found


async def prepared(listener: Listener) -> None:
    for path, body in [("serviceaccounts", b'{"metadata":{"name":"default"}}'), ("pods", encoded(POD))]:
        head = f"POST /api/v1/namespaces/default/{path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        await send(listener, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def refused_with_5xx(sent: bytes, answer: bytes) -> list[str]:
    """Return 5xx of the HTTP layer itself. 501 is for transfer codings, as the standard requires."""
    codes = [int(code) for code in _STATUS.findall(answer)]
    return [f"{sent[:200]!r} → {code}" for code in codes if code in (500, 502, 504)]


@pytest.mark.timeout(120)
async def test_odd_methods_and_headers_on_every_route(watched: Watched, listener: Listener) -> None:
    await prepared(listener)
    wrong: list[str] = []
    for path in routes():
        for sent in simple_requests(path):
            wrong += refused_with_5xx(sent, await send(listener, sent))
    assert not wrong
    assert not watched.failures, f"{len(watched.failures)}:\n" + "\n".join(watched.failures[:10])


@pytest.mark.timeout(120)
async def test_everything_odd_on_some_routes(watched: Watched, listener: Listener) -> None:
    """No part of a body is read as a request, either."""
    await prepared(listener)
    wrong: list[str] = []
    for path in THOROUGHLY:
        for sent in requests(path):
            wrong += refused_with_5xx(sent, await send(listener, sent))
    assert not wrong
    assert not watched.failures, f"{len(watched.failures)}:\n" + "\n".join(watched.failures[:10])
    assert "/smuggled" not in watched.paths


async def test_nobody_makes_series_by_asking(listener: Listener) -> None:
    """The number of metrics depends on existing objects, not on paths and methods of requests."""
    methods = [method for method in METHODS[:12] if method != "CONNECT"]  # after which no more requests follow
    for number in range(300):
        asked = [f"/{number}", f"/apis/g{number}/v1/things", f"/api/v1/namespaces/n{number}/pods/p{number}/s{number}"]
        asked += [f"/version/{number}", f"/api/v{number}/pods", f"/api/v1/nodes/n{number}", f"/healthz/{number}"]
        lines = [f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n" for method in methods for path in asked]
        last = "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        answers = await send(listener, ("".join(lines[number % 3 :: 3]) + last).encode(), all_of_it=False)
        assert answers.count(b"HTTP/1.1 ") == len(lines[number % 3 :: 3]) + 1
    text = await send(listener, b"GET /metrics HTTP/1.0\r\n\r\n")
    assert text.count(b"\napiserver_request_total{") < 200
