"""How requests travel, without saying what they mean.

A `Transport` sends one request and returns the complete reply, or opens one whose answer has no end. It knows nothing
of kinds, retries or JSON. There are two that matter, sockets (`http`) and the server in the same process (`local`);
wrappers (fencing, faults in tests) compose by taking another transport.

Header names are in lower case, going and coming. Errors: `Disconnected` and `RequestTimeout`. Any status the server
answers with is a reply, never an exception.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

NO_HEADERS: Mapping[str, str] = {}


class Request(NamedTuple):
    """What is asked. `timeout` in seconds is for the whole answer; one without an end has none."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = NO_HEADERS
    body: bytes = b""
    timeout: float | None = None


class Reply(NamedTuple):
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Notice(Protocol):
    """An event of a watch, from a server in the same process: not text, but the object as it is stored."""

    @property
    def type(self) -> str:
        """ADDED, MODIFIED, DELETED or BOOKMARK."""
        ...

    @property
    def raw(self) -> bytes:
        """The whole object, even if only its metadata was asked for."""
        ...

    memo: Any  # what the first reader of the notice has made of it, for the others


Chunks = AsyncIterator[bytes | Sequence[Notice]]


class StreamReply(NamedTuple):
    """An answer under way. `chunks` are bytes, cut anywhere, or notices; they end when the server ends the answer."""

    status: int
    headers: Mapping[str, str]
    chunks: Chunks


class Transport(Protocol):
    """The way to one API server."""

    async def request(self, request: Request) -> Reply:
        """Send and wait for the whole answer, no longer than its `timeout`."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        """Send and hand over the answer as it comes. Leaving the context ends the request."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Lines:
    """Cuts bytes into lines. A last line that never ends is never given out: it was cut off."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in this chunk, without their ends."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line, self._rest = self._rest + chunk[start:end], b""
            start = end + 1
            if line:
                yield line
        self._rest += chunk[start:]
