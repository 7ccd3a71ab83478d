"""Requests that no proper client sends, as bytes; `{path}` stands for their path."""

from __future__ import annotations

import gzip

METHODS = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "MKCOL", "LOCK",
    "PURGE", "SEARCH", "SUBSCRIBE", "LINK", "SOURCE", "QUERY", "PRI", "get", "FOO", "G\x00T", "",
]  # fmt: skip
UPGRADES = [
    f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==",
    "Connection: Upgrade\r\nUpgrade: websocket",
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 99\r\nSec-WebSocket-Key: x",
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1",
    "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    "Connection: upgrade, keep-alive\r\nUpgrade: nonsense\x7f",
    "Connection: Upgrade",
    "Upgrade: websocket",
]
IMPERSONATIONS = [
    "Impersonate-User:",
    "Impersonate-Group: x",
    "Impersonate-Uid: 1",
    "Impersonate-Extra-x: y",
    "Impersonate-User: a\r\nImpersonate-User: b",
    "Impersonate-User: a\r\nImpersonate-Extra-%zz: y",
    "Impersonate-User: a\r\nImpersonate-Extra-: y",
    "Impersonate-User: system:serviceaccount:\r\nImpersonate-Group: \xff\xfe",
    "Impersonate-User: system:node:\r\nImpersonate-Group: system:nodes",
    "Impersonate-User: system:anonymous",
    f"Impersonate-User: {'u' * 30000}",
    "\r\n".join(["Impersonate-User: a", *[f"Impersonate-Group: g{n}" for n in range(500)]]),
]
HEADERS = [
    *UPGRADES,
    *IMPERSONATIONS,
    "Accept: */*;q=nonsense,,;;,application/json;as=Table;v=v9;g=x",
    "Accept: application/json;as=;v;g=,application/yaml",
    f"Accept: {'a/b,' * 8000}",
    "Accept-Encoding: gzip;q=\xb2, *;q=-1",
    "Authorization: Bearer",
    "Authorization: Bearer \x01\x02",
    "Authorization: Basic !!!!",
    f"Authorization: Bearer {'a' * 30000}.b.c",
    "Authorization: Bearer e30.e30.e30",
    "Authorization: Bearer aaaaaa.aaaaaaaaaaaaaaaa",
    "Expect: 200-maybe",
    "Range: bytes=0-18446744073709551616",
    "If-None-Match: *\r\nIf-Match: \"",
    "Cookie: " + "a=b; " * 1000,
    "X-Forwarded-For: " + "1.1.1.1, " * 1000,
    "User-Agent: Mozilla/5.0\x1b[2J",
    "Content-Type: application/json; charset=\xff",
]  # fmt: skip


def _post(headers: str, body: bytes) -> bytes:
    return f"POST {{path}} HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n".encode("latin-1") + body


_SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
BOMB = gzip.compress(bytes(10_000_000))
_JSON = "Content-Type: application/json"
FRAMINGS = [
    _post(f"{_JSON}\r\nContent-Encoding: gzip\r\nContent-Length: {len(BOMB)}", BOMB),
    _post(f"{_JSON}\r\nContent-Encoding: deflate, br\r\nContent-Length: 2", b"{}"),
    _post(f"{_JSON}\r\nTransfer-Encoding: chunked\r\nContent-Length: 4", b"0\r\n\r\n" + _SMUGGLED),
    _post(f"{_JSON}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + _SMUGGLED),
    _post(f"{_JSON}\r\nTransfer-Encoding: chunked, identity", b"0\r\n\r\n" + _SMUGGLED),
    _post(f"{_JSON}\r\nTransfer-Encoding: xchunked", b"0\r\n\r\n" + _SMUGGLED),
    _post(f"{_JSON}\r\nTransfer-Encoding : chunked", b"0\r\n\r\n" + _SMUGGLED),
    _post(f"{_JSON}\r\nContent-Length: 2\r\nContent-Length: 44", b"{}" + _SMUGGLED),
    _post(f"{_JSON}\r\nContent-Length: +2", b"{}" + _SMUGGLED),
    _post(f"{_JSON}\r\nContent-Length: 0x2", b"{}"),
    _post(f"{_JSON}\r\nContent-Length: 99999999999999999999999", b"{}"),
    _post(f"{_JSON}\r\nContent-Length: -1", b"{}"),
    _post(f"{_JSON}\r\nTransfer-Encoding: chunked", b"2;" + b"e" * 20_000 + b"\r\n{}\r\n0\r\n\r\n"),
    _post(f"{_JSON}\r\nTransfer-Encoding: chunked", b"2;a=\"\r\n\"\r\n{}\r\n0\r\n\r\n"),
    _post(f"{_JSON}\r\nTransfer-Encoding: chunked", b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    _post(f"{_JSON}\r\nTransfer-Encoding: chunked", b"-1\r\n{}\r\n0\r\n\r\n"),
    _post(f"{_JSON}\r\nTransfer-Encoding: chunked", b"2\n{}\n0\n\n"),
    _post(f"{_JSON}\r\nTransfer-Encoding: chunked", b"1\r\n{\r\n" + b"1\r\n \r\n" * 3000 + b"1\r\n}\r\n0\r\n\r\n"),
    _post(f"{_JSON}\r\nTransfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n" + b"T: v\r\n" * 500 + b"\r\n"),
    _post(f"{_JSON}\r\nExpect: 100-continue\r\nContent-Length: 2", b"{}"),
    _post(f"{_JSON}\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n"),
]  # fmt: skip
LINES = [
    b"GET http://elsewhere.example{path} HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET https:///{path} HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET {path}#fragment?x HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET //{path}//..//%2e%2e/%00/%ff%fe/%u1234 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET {path} HTTP/1.1\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost:\r\n\r\n",
    b"GET {path} HTTP/1.0\r\n\r\n",
    b"GET {path} HTTP/0.9\r\n\r\n",
    b"GET {path} HTTP/2.0\r\nHost: x\r\n\r\n",
    b"GET {path} HTTP/1.1\nHost: x\n\n",
    b"GET {path}\r\n\r\n",
    b"GET  {path}  HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: x\r\n: novalue\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: x\r\nNoColon\r\n\r\n",
    b"GET {path}?" + b"&".join(b"a%d=b" % n for n in range(5000)) + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET {path}?%=%&=&%00=%ff&labelSelector=%&labelSelector=,,&limit=%&continue=% HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET {path}/" + b"a/" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(3000)) + b"\r\n",
    b"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n" * 200,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100),
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"\x00" * 1000,
]


def requests(path: str) -> list[bytes]:
    """All of them, for one path."""
    place = path.encode()
    lines = [f"{method} {path} HTTP/1.1\r\nHost: x" for method in METHODS]
    lines += [f"{method} {path} HTTP/1.1\r\nHost: x\r\n{header}" for header in HEADERS for method in ("GET", "POST")]
    return [*map(_encoded, lines), *[each.replace(b"{path}", place) for each in (*FRAMINGS, *LINES)]]


def simple_requests(path: str) -> list[bytes]:
    """The requests that differ from path to path."""
    lines = [f"{method} {path} HTTP/1.1\r\nHost: x" for method in METHODS]
    lines += [f"{method} {path} HTTP/1.1\r\nHost: x\r\n{upgrade}" for upgrade in UPGRADES[:5] for method in METHODS[:7]]
    return [*map(_encoded, lines)]


def _encoded(head: str) -> bytes:
    return f"{head}\r\n\r\n".encode("latin-1")
