"""How requests travel, without saying what they mean.

A `Transport` sends one request and returns the complete reply, or opens one whose answer has no end. It knows nothing
of kinds, retries or JSON. There are two that matter, sockets (`http`) and the server in the same process (`local`);
wrappers (fencing, faults in tests) compose by taking another transport.

Header names are in lower case, going and coming. Errors: `Disconnected` and `RequestTimeout`. Any status the server
answers with is a reply, never an exception.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

NO_HEADERS: Mapping[str, str] = {}


class Reply(NamedTuple):
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StreamReply(NamedTuple):
    """An answer under way. `chunks` are cut anywhere; the iteration ends when the server ends it."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Transport(Protocol):
    """The way to one API server."""

    async def request(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Reply:
        """Send and wait for the whole answer, at most `timeout` seconds."""
        ...

    def stream(
        self, method: str, path: str, query: str = "", headers: Mapping[str, str] = NO_HEADERS
    ) -> AbstractAsyncContextManager[StreamReply]:
        """Send and hand over the answer as it comes. Leaving the context ends the request."""
        ...

    def shared(self, group: str, plural: str, key: str, raw: bytes, /) -> bytes:
        """Bytes equal to `raw` that live elsewhere in this process anyway, else `raw` itself:

        caches then cost no second copy.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Complete lines of a stream, without their ends.

    A last line that was cut off is dropped: it was never finished.
    """
    rest = b""
    async for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line, rest = rest + chunk[start:end], b""
            start = end + 1
            if line:
                yield line
        rest += chunk[start:]
