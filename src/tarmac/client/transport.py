"""Transport of requests, independent of their meaning.

A `Transport` sends one request and returns the complete reply, or opens one whose response has no end. It knows nothing
of kinds, retries or JSON. There are two that matter, sockets (`http`) and the server in the same process (`local`);
wrappers (fencing, faults in tests) compose by taking an inner transport.

Header names are in lower case, in requests and replies. Errors: `Disconnected` and `RequestTimeout`. Any status the
server responds with is a reply, never an exception.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

NO_HEADERS: Mapping[str, str] = {}


class ClientRequest(NamedTuple):
    """A request. `timeout` in seconds covers the whole response; one without an end has none."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = NO_HEADERS
    body: bytes = b""
    timeout: float | None = None


class Reply(NamedTuple):
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class WatchNotice(Protocol):
    """A watch event from a server in the same process: not text, but the object as it is stored."""

    @property
    def type(self) -> str:
        """ADDED, MODIFIED, DELETED or BOOKMARK."""
        ...

    @property
    def raw(self) -> bytes:
        """The whole object, even if only its metadata was requested."""
        ...

    memo: Any  # set by the first reader of the notice, shared by all readers


Chunks = AsyncIterator[bytes | Sequence[WatchNotice]]


class StreamReply(NamedTuple):
    """A response in progress.

    `chunks` are bytes, cut anywhere, or notices; they end when the server ends the response.
    """

    status: int
    headers: Mapping[str, str]
    chunks: Chunks


class Transport(Protocol):
    """The connection to one API server."""

    async def request(self, request: ClientRequest) -> Reply:
        """Send and wait for the whole response, at most `timeout`."""
        ...

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        """Send and return the response as it arrives. Leaving the context ends the request."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class LineSplitter:
    """Splits bytes into lines. An incomplete last line is dropped: it was cut off."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in this chunk, without their line ends."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line, self._rest = self._rest + chunk[start:end], b""
            start = end + 1
            if line:
                yield line
        self._rest += chunk[start:]
