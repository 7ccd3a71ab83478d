"""Bytes in, complete requests out: the reading half of a connection, without any I/O.

httptools calls back for each part of a request. Complete requests, and at most one refusal as the last item, are queued
in `ready` in order. After a refusal, after `Connection: close` and after an upgrade nothing more is parsed.

A client with keep-alive sends the same headers with every GET. When a GET arrives in one read and its header block is,
byte for byte, the one the parser accepted last, the parsed headers are reused; that halves the cost.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from enum import Enum
from urllib.parse import unquote

import httptools

from tarmac.api.status import NO_METHOD, ApiError, BadRequest, MethodNotAllowed, TooLarge, TooManyRequests
from tarmac.http.limits import ListenerLimits, Shares
from tarmac.http.messages import Request


class Phase(Enum):
    """Progress of the request being read."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"


_GET_LINE = re.compile(rb"GET (/[!-~]*) HTTP/1\.1\r\n")
# A well-formed line with a method unknown to the parser; it stops there, so it is the first line of the data.
_UNKNOWN_METHOD = re.compile(
    rb"(?!(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT) )[A-Za-z-]+ /\S* HTTP/1\.[01]\r\n"
)
# With one of these a request has a body, or its end is not simply the end of its headers.
_NOT_PLAIN = frozenset({"connection", "content-length", "expect", "transfer-encoding", "upgrade"})
# Headers that define the caller, the target, and the end of the message. With duplicates, two readers (a proxy in
# front, this server, a node behind it) could interpret them differently; so duplicates are refused.
SINGLE = frozenset(
    {
        "authorization", "content-encoding", "content-length", "content-type", "expect", "host", "impersonate-uid",
        "impersonate-user", "sec-websocket-key", "transfer-encoding", "upgrade",
    }
)  # fmt: skip


class _Refused(Exception):
    """Stops the parser from inside a callback."""


# Clients send the same few header names all the time; the bound keeps a hostile one from filling memory.
_names: dict[bytes, str] = {}


def _lower_name(raw: bytes) -> str:
    name = raw.decode("latin-1").lower()
    if len(_names) < 256:
        _names[raw] = name
    return name


class RequestReader:
    """Parser state of one connection."""

    __slots__ = (
        "_authenticates",
        "_block",
        "_block_headers",
        "_body",
        "_clock",
        "_head_size",
        "_headers",
        "_held",
        "_limits",
        "_parser",
        "_share",
        "_shares",
        "_size",
        "_url",
        "authenticated",
        "expects_continue",
        "http10",
        "last",
        "peer_address",
        "peer_certificate",
        "phase",
        "ready",
        "rest",
        "since",
    )

    def __init__(
        self,
        limits: ListenerLimits,
        clock: Callable[[], float],
        shares: Shares | None = None,
        authenticates: Callable[[Request], bool] | None = None,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._shares = shares or Shares(limits)
        self._share = self._shares.unauthenticated  # budget of the body being read
        self._held = 0  # bytes of this connection in it
        self._authenticates = authenticates  # tells whether a request with an incomplete body has a valid credential
        self.authenticated = False  # an earlier request had one
        self._parser = httptools.HttpRequestParser(self)
        self._headers: dict[str, str] = {}
        self._block = b""  # the header block of the last plain GET, and its parsed form
        self._block_headers = self._headers
        self._url = b""
        self._body: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self.peer_address = ""
        self.peer_certificate: bytes | None = None
        self.ready: deque[Request | ApiError] = deque()
        self.phase = Phase.IDLE
        self.since = clock()  # when the current phase of the connection began
        self.expects_continue = False  # the client waits for "100 Continue"
        self.http10 = False
        self.last = False  # no request follows those in `ready`
        self.rest: bytes | None = None  # bytes behind an upgrade request

    def feed(self, data: bytes) -> None:
        """Take received bytes."""
        if self.rest is not None:
            self.rest += data
        if self.last:
            return
        whole = self.phase is Phase.IDLE and data.startswith(b"GET ")
        if whole and self._block and self._repeats(data):
            return
        self._parse(data)
        if whole and self.phase is Phase.IDLE and not self.last:
            self._remember_block(data)

    def _repeats(self, data: bytes) -> bool:
        if not data.endswith(self._block):
            return False
        line = _GET_LINE.fullmatch(data, 0, len(data) - len(self._block))
        if line is None:
            return False
        self.http10 = False
        self.since = self._clock()
        self._complete("GET", line[1], self._block_headers, b"")
        return True

    def _remember_block(self, data: bytes) -> None:
        line = _GET_LINE.match(data)
        if line and data.find(b"\r\n\r\n") == len(data) - 4 and _NOT_PLAIN.isdisjoint(self._headers):
            self._block = data[line.end() :]
            self._block_headers = self._headers

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.rest = data[upgrade.args[0] :]
            self.last = True
        except httptools.HttpParserError as error:
            if not self.last:
                unknown = self._head_size == 0 and _UNKNOWN_METHOD.match(data)
                malformed = BadRequest(f"malformed request: {error}")
                self._refuse(MethodNotAllowed(NO_METHOD, details={}) if unknown else malformed)
        if self.phase is Phase.HEAD:
            self._count(len(data))

    def _count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self._limits.head and not self.last:
            self._refuse(_head_too_large(self._limits.head))

    def close(self) -> None:
        """End reading and drop queued requests."""
        self.last = True
        self.ready.clear()
        self._release()

    def _hold(self) -> None:
        """Count an incomplete body. Refuses it when there are too many such bytes."""
        if not self._held:
            self._share = self._shares.authenticated if self._has_credential() else self._shares.unauthenticated
        self._share.held += self._size - self._held
        self._held = self._size
        if self._share.held > self._share.limit:
            why = "too many large request bodies are coming in at once, please try again later"
            self._stop(TooManyRequests(why, headers=[("Retry-After", "1")]))

    def _has_credential(self) -> bool:
        if self.authenticated or self._authenticates is None:
            return self.authenticated
        method = self._parser.get_method().decode("latin-1")
        return self._authenticates(self._request(method, self._url, self._headers, b""))

    def _release(self) -> None:
        self._share.held -= self._held
        self._held = 0
        self._body = []

    def _refuse(self, error: ApiError) -> None:
        self._release()
        self.ready.append(error)
        self.last = True
        self.phase = Phase.IDLE

    # Called by httptools.

    def on_message_begin(self) -> None:
        self.phase = Phase.HEAD
        self.since = self._clock()
        self._headers = {}
        self._url = b""
        self._head_size = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is not Phase.HEAD:
            return  # trailers are ignored
        key = _names.get(name) or _lower_name(name)
        headers = self._headers
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = value.decode("latin-1")
        if key in headers:
            if key in SINGLE:
                self._stop(BadRequest(f"too many {key.title()} headers"))
            separator = "\n" if key.startswith("impersonate-") else ", "
            text = f"{headers[key]}{separator}{text}"
        headers[key] = text

    def on_headers_complete(self) -> None:
        headers = self._headers
        if len(self._url) + sum(map(len, headers.values())) > self._limits.head:
            self._stop(_head_too_large(self._limits.head))
        self.http10 = self._parser.get_http_version() == "1.0"
        if "host" not in headers and not self.http10:
            self._stop(BadRequest("missing required Host header"))
        self._body = []
        self._size = 0
        self.phase = Phase.BODY
        length = headers.get("content-length")
        if length is not None and int(length) > self._limits.body:
            self._stop(too_large(self._limits.body))
        coding = headers.get("transfer-encoding")
        if coding is not None and coding.strip().lower() != "chunked":
            self._stop(ApiError(f'unsupported transfer encoding "{coding}", use "chunked"', code=501, reason=""))
        has_body = (length or "0") != "0" or coding is not None
        if has_body and "upgrade" in headers and self._parser.should_upgrade():
            self._stop(BadRequest("a request to upgrade the connection cannot have a body"))
        self.expects_continue = headers.get("expect", "").lower() == "100-continue"

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limits.body:
            self._stop(too_large(self._limits.body))
        if self._size > self._limits.small_body:
            self._hold()
        self._body.append(data)
        self.expects_continue = False

    def on_message_complete(self) -> None:
        self.phase = Phase.IDLE
        self.expects_continue = False
        body = self._body
        joined = b"" if not body else body[0] if len(body) == 1 else b"".join(body)
        self._release()
        self._complete(self._parser.get_method().decode("latin-1"), self._url, self._headers, joined)
        self.last = not self._parser.should_keep_alive()

    def _complete(self, method: str, url: bytes, headers: dict[str, str], body: bytes) -> None:
        self.ready.append(self._request(method, url, headers, body))

    def _request(self, method: str, url: bytes, headers: dict[str, str], body: bytes) -> Request:
        path, _, query = url.decode("latin-1").partition("?")
        if "%" in path or not path.startswith("/"):
            path = _clean_path(path)
        address, certificate = self.peer_address, self.peer_certificate
        return Request(method, path, query, headers, body, address, certificate, None, self.since)

    def _stop(self, error: ApiError) -> None:
        self._refuse(error)
        raise _Refused


def _clean_path(path: str) -> str:
    if "://" in path and not path.startswith("/"):  # absolute form, as proxies send it; elsewhere it is part of a name
        path = "/" + path.partition("://")[2].partition("/")[2]
    return unquote(path)


def _head_too_large(limit: int) -> ApiError:
    return ApiError(f"request headers are larger than {limit} bytes", code=431, reason="RequestHeaderFieldsTooLarge")


def too_large(limit: int) -> TooLarge:
    """Return the refusal of a body over the limit, worded as Kubernetes words it."""
    return TooLarge(f"Request entity too large: limit is {limit}")
