"""What subresources that lead to a node ask for, done over the way to it."""

from __future__ import annotations

from collections.abc import Awaitable

from tarmac.api.status import ApiError, BadRequest, InternalError
from tarmac.http.clientrequest import ConnectionBroken
from tarmac.http.messages import Answer, Request
from tarmac.http.streams import pulled
from tarmac.server.nodes.nodeendpoints import Way, Ways
from tarmac.server.nodes.proxying import dialled_through, reach, relay
from tarmac.server.subresources.connections import PodPort

_LARGEST_ERROR = 50_000


class NodeWays:
    """Implements `subresources.connections.NodeConnections`."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways

    def forward(self, node: str, request: Request, target: str) -> Awaitable[Answer] | None:
        """The node's own API answers."""
        way = self._ways.find(node)
        return None if way is None else relay(way, request, target)

    def log(self, node: str, target: str) -> Awaitable[Answer] | None:
        """The node's own API answers, or says why not, which becomes a Status."""
        way = self._ways.find(node)
        return None if way is None else _log(way, target)

    def to_pod(self, node: str, place: PodPort, request: Request, target: str) -> Awaitable[Answer] | None:
        """What listens in the pod answers; the node makes the connection."""
        way = self._ways.find(node)
        if way is None:
            return None
        dial = f"/tarmac/v1/dial/{place.namespace}/{place.name}/{place.uid}/{place.port}"
        forwarded = [("X-Forwarded-For", request.peer_address), ("X-Forwarded-Uri", request.path)]
        return relay(dialled_through(way, dial, "tcp", place.host), request, target, forwarded)


async def _log(way: Way, target: str) -> Answer:
    reply = await reach(way, "GET", target, [("Connection", "close")])
    if reply.status == 200:
        return pulled(reply.chunks(), content_type="text/plain", abandon=reply.close)
    try:
        text = (await reply.read(_LARGEST_ERROR)).decode(errors="replace")
    except ConnectionBroken as error:
        raise InternalError(f"error dialing backend: {error}") from error
    raise _refusal(reply.status, text)


def _refusal(status: int, text: str) -> ApiError:
    """A node's error as the API server's own."""
    if status == 400:
        return BadRequest(text)
    if status == 500:
        return InternalError(f"Internal error occurred: {text}", details={"causes": [{"message": text}]})
    return ApiError(text, code=status, reason="NotFound" if status == 404 else "")
