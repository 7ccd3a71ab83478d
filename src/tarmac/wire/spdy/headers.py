"""Name/value blocks: one zlib stream per direction, started from the dictionary that SPDY/3 fixes.

A block that inflates beyond `MAX_BLOCK` is a violation, detected before it takes memory. This side compresses with a
small window: blocks are few and short, and a default window would cost a quarter of a megabyte per connection.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

from tarmac.wire.violations import ProtocolViolation

MAX_BLOCK = 8 * 1024  # a stream of Kubernetes has four short headers
_MAX_HEADERS = 64  # headers in a block

# Frequent words, each behind its length, then statuses and values run together: section 2.6.10.1 of SPDY/3.
_WORDS = """
options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
authorization cache-control connection content-base content-encoding content-language content-length content-location
content-md5 content-range content-type date etag expect expires from host if-match if-modified-since if-none-match
if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range
referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get
status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin
"""
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    words = [word.replace("_", " ").encode() for word in _WORDS.split()]
    return b"".join(struct.pack(">I", len(word)) + word for word in words) + _REST.encode()


DICTIONARY = _dictionary()


class HeaderEncoder:
    """The sending direction. Blocks must be sent in the order they were made."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = zlib.compressobj(level=6, wbits=11, memLevel=2, zdict=DICTIONARY)

    def encode(self, headers: Mapping[str, str]) -> bytes:
        """Encode one block."""
        parts = [struct.pack(">I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                parts += (struct.pack(">I", len(text)), text)
        return self._stream.compress(b"".join(parts)) + self._stream.flush(zlib.Z_SYNC_FLUSH)


class HeaderDecoder:
    """The receiving direction. Every block must be decoded, wanted or not, since later ones refer to it."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zdict=DICTIONARY)

    def decode(self, block: bytes) -> dict[str, str]:
        """Decode one block, with names in lower case. Raises ProtocolViolation."""
        try:
            plain = self._stream.decompress(block, MAX_BLOCK + 1)
        except zlib.error as error:
            raise ProtocolViolation(f"headers cannot be decompressed: {error}") from error
        if len(plain) > MAX_BLOCK or self._stream.unconsumed_tail or self._stream.eof:
            raise ProtocolViolation("headers are too large, or their compression has ended")
        return _pairs(plain)


def _pairs(plain: bytes) -> dict[str, str]:
    try:
        (count,), place = struct.unpack_from(">I", plain), 4
        if count > _MAX_HEADERS:
            raise ProtocolViolation(f"{count} headers are too many")
        headers: dict[str, str] = {}
        for _ in range(count):
            name, place = _text(plain, place)
            headers[name.lower()], place = _text(plain, place)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolViolation(f"malformed headers: {error}") from error
    if place != len(plain):
        raise ProtocolViolation("more than headers in a block of headers")
    return headers


def _text(plain: bytes, place: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", plain, place)
    start = place + 4
    if start + length > len(plain):
        raise ProtocolViolation("a header is longer than its block")
    return plain[start : start + length].decode(), start + length
