"""Response heads, assembled from pre-encoded blocks.

Everything of a head that is the same for all answers of one status and content type is encoded once a second (because
of `Date`) and reused; per answer only the length and the handler's own headers are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class UnsendableHeader(Exception):
    """A line break in a name or value, which would let data become headers."""


def encode_headers(headers: Sequence[tuple[str, str]]) -> bytes:
    """Header lines. Raises UnsendableHeader."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or text.count("\r") != len(headers):
        raise UnsendableHeader("line break in a response header")
    return text.encode()


class Heads:
    """The blocks of one listener; `common` headers go into every answer."""

    def __init__(self, common: Sequence[tuple[str, str]] = ()) -> None:
        self._common = encode_headers(common)
        self._blocks: dict[tuple[int, str], bytes] = {}
        self._date = b""

    def tick(self, now: float) -> None:
        """Called once a second with the wall clock."""
        self._date = b"Date: %b\r\n" % formatdate(now, usegmt=True).encode()
        self._blocks.clear()

    def block(self, status: int, content_type: str) -> bytes:
        """Status line and shared headers, without the empty line that ends a head."""
        block = self._blocks.get((status, content_type))
        if block is None:
            block = self._build(status, content_type)
            self._blocks[status, content_type] = block
        return block

    def _build(self, status: int, content_type: str) -> bytes:
        line = f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\n".encode()
        kind = encode_headers([("Content-Type", content_type)]) if content_type else b""
        return line + self._common + self._date + kind
