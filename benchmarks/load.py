"""A closed-loop HTTP load generator with a low cost of its own.

Requests are encoded beforehand; each connection sends one, waits for the whole answer, sends the next. Answers are only
scanned for their length and status, so one core can saturate the server under test on the other. Every connection is
open, its handshake complete on both sides, before the first request is sent and the clock starts: a handshake costs a
server as much as ten requests, and clients keep their connections.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import cast

_SETTLING = 0.2  # seconds; a client is done with a TLS handshake before its server is


@dataclass
class Outcome:
    """Results of a run."""

    requests: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list[float])
    bad: list[bytes] = field(default_factory=list[bytes])

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """A latency in seconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


LAST_CHUNK = b"\r\n0\r\n\r\n"


class _Connection(asyncio.Protocol):
    """One keep-alive connection in the closed loop."""

    def __init__(self, requests: Iterator[bytes], outcome: Outcome, done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._outcome = outcome
        self._done = done
        self._buffer = bytearray()
        self._expected = 0
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def next(self) -> None:
        """Send the next request, or be done."""
        request = next(self._requests, None)
        if request is None:
            self._finish()
            return
        self._sent = perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._expected:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end]
            if b"transfer-encoding: chunked" in head.lower():
                if self._buffer.endswith(LAST_CHUNK):  # JSON holds no such bytes, and nothing follows an answer
                    self._take_answer()
                return
            self._expected = end + 4 + content_length(head)
        if len(self._buffer) >= self._expected:
            self._take_answer()

    def _take_answer(self) -> None:
        outcome = self._outcome
        outcome.requests += 1
        outcome.latencies.append(perf_counter() - self._sent)
        if not self._buffer.startswith(b"HTTP/1.1 2"):
            outcome.bad.append(bytes(self._buffer[:600]))
        del self._buffer[:]
        self._expected = 0
        self.next()

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server closed the connection"))


def content_length(head: bytes | bytearray) -> int:
    """Return the number of bytes after the head."""
    lowered = bytes(head).lower()
    start = lowered.find(b"content-length:")
    if start < 0:
        raise ValueError(f"an answer without a length: {bytes(head[:200])!r}")
    return int(lowered[start + 15 :].split(b"\r\n", 1)[0])


async def drive(
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    requests: Iterator[bytes],
    connections: int,
    begin: Callable[[], None] = lambda: None,
) -> Outcome:
    """Send every request over `connections` connections, wait for the last response; `begin` is called in between."""
    loop = asyncio.get_running_loop()
    outcome = Outcome()
    waits = [loop.create_future() for _ in range(connections)]
    opened: list[_Connection] = []
    for done in waits:
        make = partial(_Connection, requests, outcome, done)
        _, connection = await loop.create_connection(
            make, host, port, ssl=context, server_hostname=host if context else None
        )
        opened.append(connection)
    await asyncio.sleep(_SETTLING)
    begin()
    start = perf_counter()
    for connection in opened:
        connection.next()
    await asyncio.gather(*waits)
    outcome.seconds = perf_counter() - start
    return outcome


def encode(method: str, path: str, host: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
    """Return one encoded request."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Accept: application/json"]
    if body:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
