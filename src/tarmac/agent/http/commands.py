"""exec and attach: a stream to a process in a container, had from the runtime and handed to the client.

The runtime is always spoken to by SPDY: its WebSockets cannot end standard input. The client, by WebSocket or by SPDY,
is bridged to it; nothing of what it sends gets there as it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tarmac.agent.http.answers import Refusal
from tarmac.agent.http.bridging import RuntimeEnd, SpdyClient, WebSocketClient
from tarmac.http.asking import Reply, Unanswered, ask, request_head, tcp
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.wire.channels import PROTOCOL_VERSION, V4, V5, Channel
from tarmac.wire.violations import Violation
from tarmac.wire.websocket import accept_key, offered

OPEN_SECONDS = 30.0
SPDY = "SPDY/3.1"
_LARGEST_ERROR = 64 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """The streams a client asks for, in kubelet's words."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def read(cls, params: Mapping[str, Sequence[str]]) -> Wanted:
        """Raises Refusal."""
        stdin, stdout, stderr, tty = (_is_set(params, name) for name in ("input", "output", "error", "tty"))
        if not (stdin or stdout or stderr):
            raise Refusal(400, "you must specify at least 1 of stdin, stdout, stderr")
        return cls(stdin, stdout, stderr and not tty, tty)  # a terminal has one output

    def channels(self) -> list[Channel]:
        """As the runtime expects them."""
        chosen = {Channel.STDIN: self.stdin, Channel.STDOUT: self.stdout, Channel.STDERR: self.stderr}
        channels = [Channel.ERROR, *(channel for channel, wanted in chosen.items() if wanted)]
        return [*channels, Channel.RESIZE] if self.tty else channels


def _is_set(params: Mapping[str, Sequence[str]], name: str) -> bool:
    return params.get(name, [""])[-1] in ("1", "true")


async def stream(request: Request, url: str, wanted: Wanted) -> Answer:
    """Connect the client with what the runtime serves at `url`. Raises Refusal."""
    kind = request.headers.get("upgrade", "").lower()
    if kind == "websocket":
        return await _by_websocket(request, url, wanted)
    if kind == SPDY.lower():
        return await _by_spdy(request, url, wanted)
    raise Refusal(400, "Upgrade request required")


async def _by_websocket(request: Request, url: str, wanted: Wanted) -> Answer:
    try:
        key, protocols = offered(request.headers)
    except Violation as error:
        raise Refusal(400, str(error)) from error
    protocol = next((each for each in protocols if each in (V5, V4)), None)
    if protocol is None:
        raise Refusal(403, f"unable to upgrade: {V5} and {V4} are spoken here, not {', '.join(protocols) or 'nothing'}")
    runtime = await _opened(url, wanted)
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", accept_key(key)),
        ("Sec-WebSocket-Protocol", protocol),
    ]

    def start(client: asyncio.Transport, rest: bytes) -> None:
        WebSocketClient(client, runtime, protocol == V5).start(rest)

    return UpgradeResponse(start, headers, runtime.transport.abort)


async def _by_spdy(request: Request, url: str, wanted: Wanted) -> Answer:
    versions = [each.strip() for each in request.headers.get(PROTOCOL_VERSION, "").split(",")]
    if V4 not in versions:
        raise Refusal(403, f"unable to upgrade: {V4} is spoken here, not {', '.join(versions) or 'nothing'}")
    runtime = await _opened(url, wanted)
    headers = [("Connection", "Upgrade"), ("Upgrade", SPDY), ("X-Stream-Protocol-Version", V4)]

    def start(client: asyncio.Transport, rest: bytes) -> None:
        SpdyClient(client, runtime, len(wanted.channels())).start(rest)

    return UpgradeResponse(start, headers, runtime.transport.abort)


async def _opened(url: str, wanted: Wanted) -> RuntimeEnd:
    """The runtime's end, its streams agreed to. Raises Refusal."""
    reply = await _upgraded(url)
    transport, rest = reply.detach()
    runtime = RuntimeEnd(transport, wanted.channels())
    runtime.start(rest)
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            await runtime.ready
    except OSError as error:
        transport.abort()
        raise Refusal(500, f"the runtime does not open the streams: {error}") from error
    except asyncio.CancelledError:
        transport.abort()
        raise
    return runtime


async def _upgraded(url: str) -> Reply:
    """A connection to the runtime that speaks SPDY. Raises Refusal."""
    place = urlsplit(url)
    dial = tcp(place.hostname or "", place.port or 80)
    target = f"{place.path}?{place.query}" if place.query else place.path
    headers = [("Connection", "Upgrade"), ("Upgrade", SPDY), ("X-Stream-Protocol-Version", V4), ("Content-Length", "0")]
    try:
        reply = await ask(dial, request_head("POST", target, place.netloc, headers), OPEN_SECONDS)
        if reply.status == 101:
            return reply
        message = (await reply.read(_LARGEST_ERROR)).decode(errors="replace")
    except (OSError, Unanswered) as error:
        raise Refusal(500, f"the runtime's streaming server cannot be reached: {error}") from error
    raise Refusal(500, f"the runtime refuses: {message}")
