"""Upgrades that the server handles or guards: watches and logs over WebSocket, and the check of the Origin header.

A browser sends a client certificate for any page, so an upgrade requested by a page of another origin is rejected for
every user. Browsers cannot set an Accept header on a WebSocket, so `as=Table` in the query of a watch stands for the
media type of Tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from tarmac.api.status import ApiError, BadRequest, Forbidden
from tarmac.http.messages import Answer, Request, StreamResponse
from tarmac.http.websocketstreams import BadHandshake, Send, as_websocket, base64_text, binary, lines, wants_websocket
from tarmac.server.requestinfo import RequestInfo

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_LOG_PROTOCOLS: Final[dict[str, Send]] = {"binary.k8s.io": binary, "base64.binary.k8s.io": base64_text}


def prepare_upgrade(request: Request) -> None:
    """Check an upgrade before any other processing. Raises Forbidden for one requested by a page of another origin."""
    if "upgrade" not in request.headers:
        return
    # Browsers always send Origin on a WebSocket (RFC 6455, section 4.1): without this line, a page of any site could
    # open exec with its visitor's certificate.
    if not is_of_this_server(request):
        raise Forbidden("the page that asks for this connection is not of this server: Origin is not Host", details={})
    if request.query and wants_websocket(request.headers) and request.param("as") == "Table":
        request.headers = {**request.headers, "accept": _TABLE}


def is_of_this_server(request: Request) -> bool:
    """Return False if a browser sends the request for a page of a foreign origin."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()


def in_messages(request: Request, answer: StreamResponse) -> Answer:
    """Return a watch or a log as a WebSocket if requested; any other response unchanged. Raises ApiError."""
    info: RequestInfo = request.info
    is_log = (info.resource, info.subresource) == ("pods", "log")
    if not wants_websocket(request.headers) or answer.status != 200 or not (is_log or info.verb == "watch"):
        return answer
    try:
        return as_websocket(request.headers, answer, _for_logs if is_log else _for_watches, greets=is_log)
    except (BadHandshake, ApiError) as error:
        if answer.abandon is not None:
            # No stream will be started that would close the node's connection.
            answer.abandon()
        raise BadRequest(str(error)) if isinstance(error, BadHandshake) else error from error


def _for_watches(protocols: Sequence[str]) -> tuple[str, Send]:
    """Choose the first protocol: browsers drop a connection if the server chooses none of those they offered."""
    return (protocols[0] if protocols else ""), lines


def _for_logs(protocols: Sequence[str]) -> tuple[str, Send]:
    if not protocols:
        return "", binary
    chosen = next((each for each in protocols if each in _LOG_PROTOCOLS), None)
    if chosen is None:
        known = ", ".join(_LOG_PROTOCOLS)
        raise Forbidden(f"no subprotocol of a log is among {', '.join(protocols)}: offer one of {known}", details={})
    return chosen, _LOG_PROTOCOLS[chosen]
