"""Messages between the HTTP layer and the API: a request, and a complete response, a stream or an upgrade.

A handler is called synchronously as soon as the request is complete. It returns a response at once (reads), or an
awaitable of one (anything that must wait for the disk or a peer); only then is a task made. Tests and the in-process
transport build `Request` objects directly and never touch a socket.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs

from tarmac.base.boundedcache import bounded_cache


class Request:
    """One complete request. `user` and `info` are filled in by the API's authentication and routing."""

    __slots__ = (
        "_params",
        "annotations",
        "audit_id",
        "authenticated",
        "body",
        "headers",
        "impersonator",
        "info",
        "method",
        "path",
        "peer_address",
        "peer_certificate",
        "query",
        "received",
        "user",
        "warnings",
    )

    def __init__(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        peer_address: str = "",
        peer_certificate: bytes | None = None,
        user: Any = None,
        received: float = 0.0,
    ) -> None:
        self.method = method
        self.path = path  # percent-decoded
        self.query = query  # raw, without "?"
        # Names in lower case. Repeated lines are joined by ", "; those of impersonate-* (they may hold commas) by "\n".
        # Headers with one meaning only (`reading.SINGLE`) are never repeated.
        self.headers: Mapping[str, str] = headers if headers is not None else {}
        self.body = body
        self.peer_address = peer_address
        self.peer_certificate = peer_certificate  # verified client certificate, DER
        self.user = user  # preset by the in-process transport, else None until authenticated
        self.authenticated = False  # set by authentication: the credential was valid; False for anonymous
        self.impersonator: Any = None  # the authenticated user, when impersonating
        self.annotations: Mapping[str, str] | None = None  # additional audit annotations
        self.info: Any = None
        self.warnings: Sequence[str] = ()  # sent to the client, whatever the outcome
        self.audit_id = ""  # sent to the client as Audit-Id
        self.received = received  # monotonic seconds
        self._params: dict[str, list[str]] | None = None

    def params(self) -> dict[str, list[str]]:
        """Query parameters, parsed once. Do not change them: requests with the same query share them."""
        if self._params is None:
            self._params = parse_query(self.query) if self.query else {}
        return self._params

    def param(self, name: str, default: str = "") -> str:
        """Return the first value of a query parameter."""
        values = self.params().get(name)
        return values[0] if values else default


@bounded_cache(256)  # writers repeat the same few queries
def parse_query(query: str) -> dict[str, list[str]]:
    """Parse a query string. The only parser: authorization must see the same values as the listing. Do not change."""
    return parse_qs(query, keep_blank_values=True)


def bearer_token(request: Request) -> str:
    """Return the bearer token of a request, or ""."""
    authorization = request.headers.get("authorization")
    if not authorization:
        return ""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def basic_password(request: Request) -> str:
    """Return the basic-auth password of a request; "" if missing or unreadable."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(encoded.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


class Response:
    """A complete response. `body` may be several buffers; a large response is never joined."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes | list[bytes] = b"",
        content_type: str = "application/json",
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers


class Notice:
    """One watch event for in-process readers, which take the object as it is stored instead of a line of text.

    `memo` belongs to the readers: the first one caches its decoded form for all.
    """

    __slots__ = ("memo", "raw", "type")

    def __init__(self, type: str, raw: bytes) -> None:
        self.type = type
        self.raw = raw
        self.memo: Any = None


class Chunk:
    """A chunk that many streams send: rendered and framed once, on first use.

    A chunk of events may carry them as `notices` too; a reader of these causes no rendering.
    """

    __slots__ = ("_data", "_framed", "_render", "notices")

    def __init__(self, data: bytes | Callable[[], bytes], notices: Sequence[Notice] = ()) -> None:
        self._data, self._render = (data, None) if isinstance(data, bytes) else (b"", data)
        self._framed = b""
        self.notices = notices

    @property
    def data(self) -> bytes:
        """The bytes, without any framing."""
        if self._render is not None:
            self._data, self._render = self._render(), None
        return self._data

    @property
    def framed(self) -> bytes:
        """The bytes in HTTP/1.1 chunked transfer coding."""
        if not self._framed:
            data = self.data
            self._framed = b"%x\r\n%b\r\n" % (len(data), data)
        return self._framed

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return sum([len(notice.raw) for notice in self.notices]) if self.notices else len(self.data)


class Stream(Protocol):
    """The sending side of a streamed response, as passed to `StreamResponse.start`."""

    def write(self, data: bytes) -> bool:
        """Queue bytes. False when the stream has ended: closed, client gone, or too slow and cut off."""
        ...

    def write_chunk(self, chunk: Chunk) -> bool:
        """As `write`, without framing the shared bytes again."""
        ...

    def close(self) -> None:
        """End the response in an orderly way."""
        ...

    def abort(self) -> None:
        """End it so that the client knows that data is missing."""
        ...

    async def drained(self) -> None:
        """Wait until the client has caught up. Producers that cannot wait are cut off when too far ahead."""
        ...

    @property
    def buffered(self) -> int:
        """Bytes not yet taken by the kernel."""
        ...


class StreamResponse:
    """A response without an end. `start` gets the stream once the head is sent.

    It returns a callback, called exactly once, when the stream ends: closed, client gone, cut off, or server stopping.
    `abandon` is called in its place when the client disconnected before the response was ready.
    """

    __slots__ = ("abandon", "content_type", "headers", "start", "status")

    def __init__(
        self,
        start: Callable[[Stream], Callable[[], None]],
        status: int = 200,
        content_type: str = "application/json",
        headers: list[tuple[str, str]] | None = None,
        abandon: Callable[[], None] | None = None,
    ) -> None:
        self.start = start
        self.abandon = abandon
        self.status = status
        self.content_type = content_type
        self.headers = headers


class UpgradeResponse:
    """`101 Switching Protocols`: `start` gets the transport, and the bytes received behind the request.

    From then on the new owner has the connection: it sets its own protocol on the transport and closes it. `abandon` is
    called in its place when the client disconnected before the response was ready. A response that `reports_end` calls
    `over`, if set by then, when the new connection has closed.
    """

    __slots__ = ("abandon", "headers", "over", "reports_end", "start")

    def __init__(
        self,
        start: Callable[[asyncio.Transport, bytes], None],
        headers: list[tuple[str, str]] | None = None,
        abandon: Callable[[], None] | None = None,
        reports_end: bool = False,
    ) -> None:
        self.start = start
        self.abandon = abandon
        self.headers = headers
        self.reports_end = reports_end
        self.over: Callable[[], None] | None = None

    def report_end(self) -> None:
        """Report that the new connection has closed."""
        over, self.over = self.over, None
        if over is not None:
            over()


Answer = Response | StreamResponse | UpgradeResponse
Handler = Callable[[Request], "Answer | Awaitable[Answer]"]
