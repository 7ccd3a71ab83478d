"""Opens the stream behind a URL of the runtime, which is valid for one connection."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from tarmac.http.clientrequest import StreamedReply, request_head, send_request, tcp
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.runtimes.cri.streaming.session import SpdyCommandStream
from tarmac.runtimes.interface import RuntimeRefused, StreamOptions
from tarmac.wire.channels import V4

_OPEN_SECONDS = 30.0
_MAX_ERROR = 64 * 1024


async def open_stream(url: str, options: StreamOptions) -> SpdyCommandStream:
    """Open the stream and wait until all its channels are accepted. Raises RuntimeRefused."""
    reply = await _upgraded(url)
    transport, rest = reply.detach()
    stream = SpdyCommandStream(transport, options.channels())
    stream.start(rest)
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            await stream.ready
    except OSError as error:
        transport.abort()
        raise RuntimeRefused(f"the runtime does not open the streams: {error}") from error
    except asyncio.CancelledError:
        # The client disconnected while the runtime was answering: no other code would close this connection.
        transport.abort()
        raise
    return stream


async def _upgraded(url: str) -> StreamedReply:
    """Open an HTTP connection to the runtime and upgrade it to SPDY. Raises RuntimeRefused."""
    place = urlsplit(url)
    dial = tcp(place.hostname or "", place.port or 80)
    target = f"{place.path}?{place.query}" if place.query else place.path
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "SPDY/3.1"),
        ("X-Stream-Protocol-Version", V4),
        ("Content-Length", "0"),
    ]
    try:
        reply = await send_request(dial, request_head("POST", target, place.netloc, headers), _OPEN_SECONDS)
        if reply.status == 101:
            return reply
        message = (await reply.read(_MAX_ERROR)).decode(errors="replace")
    except (OSError, ConnectionBroken) as error:
        raise RuntimeRefused(f"the runtime's streaming server cannot be reached: {error}") from error
    raise RuntimeRefused(f"the runtime refuses: {message}")
