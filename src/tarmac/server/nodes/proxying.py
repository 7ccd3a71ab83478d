"""Forwards a request over a second connection, and returns the response with its body unchanged.

If the response is an upgrade, the two connections are spliced: the server neither reads nor changes the data. Else the
body is read as fast as the client receives it. The client's credentials are not forwarded, and browsers isolate the
response from the API server (`isolation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote

from tarmac.api.status import InternalError
from tarmac.http.clientrequest import StreamedReply, hand_over, request_head, send_request
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.http.splicing import splice
from tarmac.http.streams import stream_of
from tarmac.server.nodes.isolation import check_destination, isolated
from tarmac.server.nodes.nodeendpoints import NodeRoute
from tarmac.wire.visitors import PREFIX as VISITOR

_MAX_ERROR = 4096
RESPONSE_TIMEOUT = 55.0  # slightly less than the listener's timeout for handlers
# Headers of one connection (RFC 9110, section 7.6.1). Passed on, they would desynchronize the second one.
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding"}
)
_OWN = _HOP_BY_HOP | {"content-length", "content-type"}
_WITHOUT_BODY = (204, 304)
_NOT_PASSED_ON = _HOP_BY_HOP | {"authorization", "content-length", "expect", "host", "upgrade"}


async def forward(route: NodeRoute, request: Request, target: str, more: Iterable[tuple[str, str]] = ()) -> Answer:
    """Forward a request and return the response.

    Raises InternalError if the peer cannot be reached, Forbidden for a browser that asks for code.
    """
    # Before the connection to the node: a rejected request must not reach a pod.
    check_destination(request.headers)
    reply = await send(route, request.method, target, [*forwarded_headers(request.headers), *more], request.body)
    return response_of(reply, route.host, prefix_of(request))


def response_of(reply: StreamedReply, host: str = "", prefix: str = "") -> Answer:
    """Convert a peer's response into our own. Its redirects to its own paths are made to stay below `prefix`."""
    if reply.status == 101:
        made = UpgradeResponse(
            lambda client, rest: splice((client, rest), reply.detach(), over=made.report_end),
            _of_upgrade(reply.fields),
            reply.close,
            reports_end=True,
        )
        return made
    headers = [pair for pair in reply.fields if pair[0].lower() not in (*_HOP_BY_HOP, "content-length", "content-type")]
    kept = isolated(headers, host, prefix)
    return stream_of(reply.chunks(), reply.status, reply.header("content-type"), kept, reply.close)


def prefix_of(request: Request) -> str:
    """Return the path below which `…/proxy` shows the peer; empty for other requests."""
    if request.info.subresource != "proxy":
        return ""
    before, _, _ = request.path.partition(f"/{request.info.name}/proxy")
    return quote(f"{before}/{request.info.name}/proxy", safe="/:@!$&'()*+,;=~-._")


async def send(
    route: NodeRoute, method: str, target: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b""
) -> StreamedReply:
    """Send a request and wait for the head of the response. Raises InternalError."""
    lines = list(headers)
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(("Content-Length", str(len(body))))
    try:
        return await send_request(route.dial, request_head(method, target, route.host, lines) + body, RESPONSE_TIMEOUT)
    except (OSError, ConnectionBroken) as error:
        raise InternalError(f"error dialing backend: {error}") from error


def forwarded_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the client headers to forward.

    Headers in which a server asserts a user's identity are dropped: a client must not set them.
    """
    lines: list[tuple[str, str]] = []
    for name, value in headers.items():
        if name == "x-stream-protocol-version":  # some servers expect one protocol per line
            lines += ((name, each.strip()) for each in value.split(","))
        elif name not in _NOT_PASSED_ON and not name.startswith(("impersonate-", "x-remote-", VISITOR)):
            lines.append((name, value))
    if "upgrade" in headers:
        return [*lines, ("Connection", "Upgrade"), ("Upgrade", headers["upgrade"])]
    return [*lines, ("Connection", "close")]


def _of_upgrade(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    kept = ("connection", "upgrade", "sec-websocket-accept", "sec-websocket-protocol", "x-stream-protocol-version")
    return [pair for pair in headers if pair[0].lower() in kept]


def route_through(route: NodeRoute, target: str, upgrade: str, host: str) -> NodeRoute:
    """Return a route through `route`: a connection to it, upgraded to a connection to `target`."""
    headers = [("Connection", "Upgrade"), ("Upgrade", upgrade)]

    async def dial(factory: Callable[[], asyncio.Protocol]) -> None:
        reply = await send_request(route.dial, request_head("GET", target, route.host, headers), RESPONSE_TIMEOUT)
        if reply.status != 101:
            raise ConnectionError((await reply.read(_MAX_ERROR)).decode(errors="replace"))
        hand_over(*reply.detach(), factory)

    return NodeRoute(dial, host)
