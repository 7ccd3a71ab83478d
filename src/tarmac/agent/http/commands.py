"""exec and attach: a stream to a process in a container, had from the runtime and handed to the client.

The runtime is always spoken to by SPDY: its WebSockets cannot end standard input. A client that comes by SPDY gets the
runtime's connection itself, byte for byte; one that comes by WebSocket gets it translated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tarmac.agent.http.answers import Refusal
from tarmac.agent.http.bridging import ClientEnd, RuntimeEnd
from tarmac.http.asking import Reply, Unanswered, ask, request_head, tcp
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.http.splicing import splice
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
        return await _translated(request, url, wanted)
    if kind == SPDY.lower():
        return await _spliced(request, url)
    raise Refusal(400, "Upgrade request required")


async def _spliced(request: Request, url: str) -> Answer:
    versions = [each.strip() for each in request.headers.get(PROTOCOL_VERSION, "").split(",")]
    reply = await _upgraded(url, versions)
    headers = [("Connection", "Upgrade"), ("Upgrade", SPDY), *_version(reply)]
    return UpgradeResponse(lambda client, rest: splice((client, rest), reply.detach(), idle=None), headers, reply.close)


def _version(reply: Reply) -> list[tuple[str, str]]:
    version = reply.header(PROTOCOL_VERSION)
    return [("X-Stream-Protocol-Version", version)] if version else []


async def _translated(request: Request, url: str, wanted: Wanted) -> Answer:
    try:
        key, protocols = offered(request.headers)
    except Violation as error:
        raise Refusal(400, str(error)) from error
    protocol = next((each for each in protocols if each in (V5, V4)), None)
    if protocol is None:
        raise Refusal(403, f"unable to upgrade: {V5} and {V4} are spoken here, not {', '.join(protocols) or 'nothing'}")
    reply = await _upgraded(url, [V4])
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
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", accept_key(key)),
        ("Sec-WebSocket-Protocol", protocol),
    ]

    def start(client: asyncio.Transport, rest: bytes) -> None:
        ClientEnd(client, runtime, protocol == V5).start(rest)

    return UpgradeResponse(start, headers, transport.abort)


async def _upgraded(url: str, versions: Sequence[str]) -> Reply:
    """A connection to the runtime that speaks SPDY. Raises Refusal."""
    place = urlsplit(url)
    dial = tcp(place.hostname or "", place.port or 80)
    target = f"{place.path}?{place.query}" if place.query else place.path
    headers = [("Connection", "Upgrade"), ("Upgrade", SPDY), ("Content-Length", "0")]
    headers += [("X-Stream-Protocol-Version", each) for each in versions]
    try:
        reply = await ask(dial, request_head("POST", target, place.netloc, headers), OPEN_SECONDS)
        if reply.status == 101:
            return reply
        message = (await reply.read(_LARGEST_ERROR)).decode(errors="replace")
    except (OSError, Unanswered) as error:
        raise Refusal(500, f"the runtime's streaming server cannot be reached: {error}") from error
    raise Refusal(500, f"the runtime refuses: {message}")
