"""Relays a browser's requests to the server of a kubeconfig, with the kubeconfig's credentials.

The browser's own identity is not forwarded: its Authorization, cookies, Origin and impersonation headers are dropped.
Responses are passed back unchanged, compressed or not; a connection that becomes a WebSocket is spliced to the server's
and no longer inspected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from tarmac.base.tasks import Tasks
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpConfig, HttpTransport, tls_context
from tarmac.client.transport import ClientRequest
from tarmac.client.websockets import credentials
from tarmac.dashboard.answers import refusal
from tarmac.http.clientrequest import StreamedReply, request_head, send_request, tcp
from tarmac.http.messages import Answer, Request, Response, Stream, StreamResponse, UpgradeResponse
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.http.splicing import splice

HEARTBEAT = "/livez"
_HEARTBEAT_SECONDS = 5.0
_SECONDS = 30.0
_TO_SERVER = (
    "accept", "accept-encoding", "content-type", "if-none-match", "sec-fetch-dest", "sec-websocket-extensions",
    "sec-websocket-key", "sec-websocket-protocol", "sec-websocket-version", "service-worker", "user-agent",
)  # fmt: skip
_TO_BROWSER = frozenset((
    "audit-id", "cache-control", "content-encoding", "content-security-policy", "etag", "retry-after",
    "sec-websocket-accept", "sec-websocket-extensions", "sec-websocket-protocol", "vary", "warning",
    "x-content-type-options",
))  # fmt: skip


class Relay:
    """Relays requests to one server."""

    def __init__(self, server: HttpConfig) -> None:
        self._server = server
        self._place = place = urlsplit(server.url)
        self._tls = tls_context(server) if place.scheme == "https" else None
        name = server.server_name or place.hostname or ""
        self._dial = tcp(place.hostname or "", place.port or (443 if self._tls else 80), self._tls, name)
        self._heartbeats = HttpTransport(server)
        self._tasks = Tasks()

    async def answer(self, request: Request) -> Answer:
        """Return the server's response, or a 502 with the reason."""
        try:
            if request.path == HEARTBEAT:
                return await self._heartbeat()
            reply = await send_request(self._dial, self._head(request) + request.body, _SECONDS)
        except (OSError, ConnectionBroken, ClientError) as error:
            return refusal(request, 502, "The server does not answer", f"{self._server.url}: {error or 'no answer'}")
        return _upgraded(reply) if reply.status == 101 else self._streamed(reply)

    async def close(self) -> None:
        """Cancel running responses."""
        await self._tasks.close()
        await self._heartbeats.close()

    async def _heartbeat(self) -> Response:
        # Over a connection that is kept: a TLS handshake every few seconds would be most of what an idle page costs.
        reply = await self._heartbeats.request(ClientRequest("GET", HEARTBEAT, timeout=_HEARTBEAT_SECONDS))
        return Response(reply.status, reply.body, "text/plain; charset=utf-8")

    def _head(self, request: Request) -> bytes:
        headers = [(name, request.headers[name]) for name in _TO_SERVER if name in request.headers]
        if request.headers.get("upgrade", "").lower() == "websocket":
            headers += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        else:
            headers += [("Connection", "close")]
        if request.body or request.method not in ("GET", "HEAD"):
            headers.append(("Content-Length", str(len(request.body))))
        # The path is decoded, so quote it again, except for slashes. Rejecting a slash or line break that was quoted
        # before is up to the server.
        target = self._place.path.rstrip("/") + quote(request.path, safe="/:@!$&'()*+,;=~-._")
        target += f"?{request.query}" if request.query else ""
        host = self._place.netloc.rpartition("@")[2]
        return request_head(request.method, target, host, [*headers, *credentials(self._server)])

    def _streamed(self, reply: StreamedReply) -> StreamResponse:
        def start(stream: Stream) -> Callable[[], None]:
            task = self._tasks.begin(_pass_on(reply, stream), "an answer for a browser")

            def over() -> None:
                task.cancel()
                reply.close()

            return over

        return StreamResponse(start, reply.status, reply.header("content-type"), _chosen(reply), reply.close)


async def _pass_on(reply: StreamedReply, stream: Stream) -> None:
    try:
        async for chunk in reply.chunks():
            if not stream.write(chunk):
                return
            await stream.drained()
    except ConnectionBroken:
        stream.abort()  # abort, so that the browser does not take a truncated response for a complete one
        return
    stream.close()


def _upgraded(reply: StreamedReply) -> UpgradeResponse:
    def start(transport: asyncio.Transport, rest: bytes) -> None:
        splice((transport, rest), reply.detach(), idle=None)

    headers = [("Connection", "Upgrade"), ("Upgrade", "websocket"), *_chosen(reply)]
    return UpgradeResponse(start, headers, reply.close)


def _chosen(reply: StreamedReply) -> list[tuple[str, str]]:
    return [(name, value) for name, value in reply.fields if name.lower() in _TO_BROWSER]
