"""exec and attach: connects a client to the runtime's stream of a process.

The client speaks WebSocket or SPDY. Its frames are parsed and translated; none is forwarded as received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tarmac.agent.http.bridging import SpdyClient, WebSocketClient
from tarmac.agent.http.kubeletanswers import HttpError
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.runtimes.interface import CommandStream, StreamOptions
from tarmac.wire.channels import PROTOCOL_VERSION, V4, V5
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import accept_key, offered

SPDY = "SPDY/3.1"
OpenStream = Callable[[], Awaitable[CommandStream]]


def read_options(params: Mapping[str, Sequence[str]]) -> StreamOptions:
    """Return the requested streams, from kubelet's query parameters. Raises HttpError."""
    stdin, stdout, stderr, tty = (_is_set(params, name) for name in ("input", "output", "error", "tty"))
    if not (stdin or stdout or stderr):
        raise HttpError(400, "you must specify at least 1 of stdin, stdout, stderr")
    return StreamOptions(stdin, stdout, stderr and not tty, tty)


def _is_set(params: Mapping[str, Sequence[str]], name: str) -> bool:
    return params.get(name, [""])[-1] in ("1", "true")


async def stream(request: Request, open_stream: OpenStream, options: StreamOptions) -> Answer:
    """Connect the client with the stream, which is opened after the request is validated.

    Raises HttpError, RuntimeFault.
    """
    kind = request.headers.get("upgrade", "").lower()
    if kind == "websocket":
        return await _by_websocket(request, open_stream)
    if kind == SPDY.lower():
        return await _by_spdy(request, open_stream, len(options.channels()))
    raise HttpError(400, "Upgrade request required")


async def _by_websocket(request: Request, open_stream: OpenStream) -> Answer:
    try:
        key, protocols = offered(request.headers)
    except ProtocolViolation as error:
        raise HttpError(400, str(error)) from error
    protocol = next((each for each in protocols if each in (V5, V4)), None)
    if protocol is None:
        raise HttpError(
            403, f"unable to upgrade: {V5} and {V4} are spoken here, not {', '.join(protocols) or 'nothing'}"
        )
    command = await open_stream()
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", accept_key(key)),
        ("Sec-WebSocket-Protocol", protocol),
    ]

    def start(client: asyncio.Transport, rest: bytes) -> None:
        WebSocketClient(client, command, protocol == V5).start(rest)

    # Aborted if the client leaves before the upgrade: nothing else would end the stream in the runtime.
    return UpgradeResponse(start, headers, command.abort)


async def _by_spdy(request: Request, open_stream: OpenStream, streams: int) -> Answer:
    versions = [each.strip() for each in request.headers.get(PROTOCOL_VERSION, "").split(",")]
    if V4 not in versions:
        raise HttpError(403, f"unable to upgrade: {V4} is spoken here, not {', '.join(versions) or 'nothing'}")
    command = await open_stream()
    headers = [("Connection", "Upgrade"), ("Upgrade", SPDY), ("X-Stream-Protocol-Version", V4)]

    def start(client: asyncio.Transport, rest: bytes) -> None:
        SpdyClient(client, command, streams).start(rest)

    return UpgradeResponse(start, headers, command.abort)
