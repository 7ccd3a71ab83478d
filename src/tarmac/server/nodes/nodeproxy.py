"""Forwards requests of subresources to nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import msgspec

from tarmac.api.status import ApiError, BadRequest, InternalError
from tarmac.http.clientrequest import StreamedReply
from tarmac.http.messages import Answer, Request
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.http.streams import stream_of
from tarmac.server.nodes.isolation import SANDBOX
from tarmac.server.nodes.localnodes import LocalNodes
from tarmac.server.nodes.nodeendpoints import NodeRoute, NodeRoutes
from tarmac.server.nodes.proxying import forward, forwarded_headers, response_of, route_through, send
from tarmac.server.subresources.nodestreams import PodPort
from tarmac.wire.visitors import NOT_RECORDED, RECORD_HEADER, USER_HEADER, encode_user

_MAX_ERROR = 50_000
_FETCH_TIMEOUT = 5.0
_REASONS = {404: "NotFound", 409: "Conflict", 429: "TooManyRequests", 503: "ServiceUnavailable"}


class _Status(msgspec.Struct):
    message: str


class NodeProxy:
    """Implements `subresources.connections.NodeConnections`."""

    def __init__(self, routes: NodeRoutes, local: LocalNodes) -> None:
        self._routes = routes
        self._local = local

    def forward(self, node: str, request: Request, target: str, recorded: bool = True) -> Awaitable[Answer] | None:
        """Forward a request to the node's API. None without a route to the node."""
        route = self._route(node)
        return None if route is None else forward(route, request, target, _user_headers(request, recorded))

    def ask(self, node: str, request: Request, target: str, recorded: bool) -> Awaitable[Answer] | None:
        """Forward a request to the node's API, and turn its errors into a Status. None without a route to the node."""
        route = self._route(node)
        return None if route is None else _ask(route, request, target, _user_headers(request, recorded))

    def log(self, node: str, target: str) -> Awaitable[Answer] | None:
        """Stream a log from the node's API, and turn its errors into a Status. None without a route to the node."""
        route = self._route(node)
        return None if route is None else _log(route, target)

    def to_pod(self, node: str, place: PodPort, request: Request, target: str) -> Awaitable[Answer] | None:
        """Forward a request to a port of a pod. The node makes the connection. None without a route to the node."""
        route = self._route(node)
        if route is None:
            return None
        dial = f"/tarmac/v1/dial/{place.namespace}/{place.name}/{place.uid}/{place.port}"
        forwarded = [("X-Forwarded-For", request.peer_address), ("X-Forwarded-Uri", request.path)]
        return forward(route_through(route, dial, "tcp", place.host), request, target, forwarded)

    def fetch(self, node: str, target: str, most: int) -> Awaitable[bytes] | None:
        """Read a document from the node's API, of at most `most` bytes. None without a route to the node."""
        route = self._route(node)
        return None if route is None else _fetched(route, target, most)

    def _route(self, node: str) -> NodeRoute | None:
        return self._local.find(node) or self._routes.find(node)


async def _fetched(route: NodeRoute, target: str, most: int) -> bytes:
    try:
        # Covers the body too: a node that stops in the middle of it would hold the request for ever.
        async with asyncio.timeout(_FETCH_TIMEOUT):
            reply = await send(route, "GET", target, [("Connection", "close")])
            body = await reply.read(most)
    except (TimeoutError, ConnectionBroken, OSError) as error:
        raise InternalError(f"error dialing backend: {error}") from error
    if reply.status != 200:
        raise _refusal(reply.status, body[:_MAX_ERROR].decode(errors="replace"))
    return body


def _user_headers(request: Request, recorded: bool) -> list[tuple[str, str]]:
    """Return the headers with the user's name, which a node trusts only from its server."""
    name: str = request.user.name
    if request.impersonator is not None:
        name = f"{name} (impersonated by {request.impersonator.name})"
    user = (USER_HEADER, encode_user(name))
    return [user] if recorded else [user, (RECORD_HEADER, NOT_RECORDED)]


async def _ask(route: NodeRoute, request: Request, target: str, more: Sequence[tuple[str, str]]) -> Answer:
    reply = await send(route, request.method, target, [*forwarded_headers(request.headers), *more], request.body)
    if reply.status < 400:
        return response_of(reply)
    raise await _error_of(reply)


async def _log(route: NodeRoute, target: str) -> Answer:
    reply = await send(route, "GET", target, [("Connection", "close")])
    if reply.status == 200:
        return stream_of(reply.chunks(), content_type="text/plain", headers=list(SANDBOX), abandon=reply.close)
    raise await _error_of(reply)


async def _error_of(reply: StreamedReply) -> ApiError:
    """Return a node's error response as an ApiError."""
    try:
        # A node's text goes to the client as a message: bounded, and never anything but valid UTF-8.
        text = (await reply.read(_MAX_ERROR)).decode(errors="replace")
    except ConnectionBroken as error:
        return InternalError(f"error dialing backend: {error}")
    return _refusal(reply.status, _message(text))


def _message(text: str) -> str:
    """Return the message of a node's error: of a Status, or the plain text."""
    try:
        return msgspec.json.decode(text, type=_Status).message
    except msgspec.MsgspecError:
        return text


def _refusal(status: int, text: str) -> ApiError:
    """Return a node's error as the API server's own."""
    if status == 400:
        return BadRequest(text)
    if status == 500:
        return InternalError(f"Internal error occurred: {text}", details={"causes": [{"message": text}]})
    return ApiError(text, code=status, reason=_REASONS.get(status, ""))
