"""Ports of pods: forwarded for kubectl, or dialled for the API server's proxies."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from tarmac.agent.http.forwarding.channels import ChannelForward
from tarmac.agent.http.forwarding.podend import Dial
from tarmac.agent.http.forwarding.spdystreams import SpdyForward
from tarmac.agent.http.kubeletanswers import HttpError
from tarmac.base.digits import port_number
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.http.splicing import splice
from tarmac.wire.channels import PORT_FORWARD_V1, PROTOCOL_VERSION, TUNNELLED_SPDY, V4
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import accept_key, offered

DIAL_TIMEOUT = 10.0
RAW = "tcp"  # the Upgrade token of a single dialled connection
_MAX_PORTS = 64

__all__ = ["DIAL_TIMEOUT", "RAW", "Dial", "connect", "forward"]


def forward(request: Request, dial: Dial) -> Answer:
    """Serve port-forward by SPDY, tunnelled SPDY or WebSocket channels. Raises HttpError."""
    kind = request.headers.get("upgrade", "").lower()
    if kind == "websocket":
        return _by_websocket(request, dial)
    if kind != "spdy/3.1":
        raise HttpError(400, "Upgrade request required")
    versions = [each.strip() for each in request.headers.get(PROTOCOL_VERSION, PORT_FORWARD_V1).split(",")]
    if PORT_FORWARD_V1 not in versions:
        raise HttpError(403, f"unable to upgrade: {PORT_FORWARD_V1} is spoken here, not {', '.join(versions)}")
    headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", PORT_FORWARD_V1)]
    return UpgradeResponse(lambda client, rest: SpdyForward(client, False, dial).start(rest), headers)


def _by_websocket(request: Request, dial: Dial) -> Answer:
    try:
        key, protocols = offered(request.headers)
    except ProtocolViolation as error:
        raise HttpError(400, str(error)) from error
    headers = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accept_key(key))]
    if TUNNELLED_SPDY in protocols:
        headers.append(("Sec-WebSocket-Protocol", TUNNELLED_SPDY))
        return UpgradeResponse(lambda client, rest: SpdyForward(client, True, dial).start(rest), headers)
    if V4 not in protocols:
        raise HttpError(403, f"unable to upgrade: {TUNNELLED_SPDY} and {V4} are spoken here")
    headers.append(("Sec-WebSocket-Protocol", V4))
    ports = _ports(request)
    return UpgradeResponse(lambda client, rest: ChannelForward(client, ports, dial).start(rest), headers)


def _ports(request: Request) -> list[int]:
    texts = [text for each in request.params().get("port", []) for text in each.split(",")]
    if not texts:
        raise HttpError(400, 'query parameter "port" is required')
    if len(texts) > _MAX_PORTS:
        raise HttpError(400, f"no more than {_MAX_PORTS} ports at once")
    return [_port(each) for each in texts]


def _port(text: str) -> int:
    port = port_number(text)
    if port is None:
        raise HttpError(400, f'unable to parse "{text[:64]}" as a port')
    return port


async def connect(request: Request, dial: Dial, port: int) -> Answer:
    """Connect to the pod and relay raw bytes. Raises HttpError."""
    if request.headers.get("upgrade", "").lower() != RAW:
        raise HttpError(400, "Upgrade request required")
    try:
        held = await _held(await dial(port))
    except OSError as error:
        raise HttpError(502, f"failed to connect to port {port}: {error}") from error

    def start(client: asyncio.Transport, rest: bytes) -> None:
        splice((client, rest), (held.transport, held.rest), idle=None)

    return UpgradeResponse(start, [("Connection", "Upgrade"), ("Upgrade", RAW)], held.transport.abort)


async def _held(connected: socket.socket) -> _Held:
    try:
        return (await asyncio.get_running_loop().create_connection(_Held, sock=connected))[1]
    # Also on cancellation: the client may leave while the pod is being dialled, and the socket would leak.
    except BaseException:
        connected.close()
        raise


class _Held(asyncio.Protocol):
    """A connection until it is spliced; buffers data of pods that send first."""

    def __init__(self) -> None:
        self.transport = cast("asyncio.Transport", None)
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.rest += data
