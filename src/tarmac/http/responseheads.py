"""Response heads, assembled from pre-encoded blocks.

The part of a head that is the same for all responses of one status and content type is encoded once a second (because
of `Date`) and reused; per response only the length and the handler's own headers are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_NONE: frozenset[str] = frozenset()
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class UnsendableHeader(Exception):
    """A line break in a name or value, which would let data become headers."""


def encode_headers(headers: Sequence[tuple[str, str]]) -> bytes:
    """Encode header lines. Raises UnsendableHeader."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or text.count("\r") != len(headers):
        raise UnsendableHeader("line break in a response header")
    return text.encode()


class Heads:
    """The blocks of one listener; `common` headers go into every response."""

    def __init__(self, common: Sequence[tuple[str, str]] = ()) -> None:
        self._common = tuple(common)
        self._names = frozenset(name.lower() for name, _ in common)
        self._blocks: dict[tuple[int, str, frozenset[str]], bytes] = {}
        self._date = b""

    def tick(self, now: float) -> None:
        """Update the date; called once a second with the wall clock."""
        self._date = b"Date: %b\r\n" % formatdate(now, usegmt=True).encode()
        self._blocks.clear()

    def block(self, status: int, content_type: str, own: Sequence[tuple[str, str]] = ()) -> bytes:
        """Return status line, shared headers and the response's own, which replace shared ones of their name.

        The empty line that ends a head is left to the caller. Raises UnsendableHeader.
        """
        replaced = frozenset(name.lower() for name, _ in own) & self._names if own else _NONE
        block = self._blocks.get((status, content_type, replaced))
        if block is None:
            block = self._build(status, content_type, replaced)
            self._blocks[status, content_type, replaced] = block
        return block + encode_headers(own) if own else block

    def _build(self, status: int, content_type: str, replaced: frozenset[str]) -> bytes:
        line = f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\n".encode()
        common = encode_headers([(name, value) for name, value in self._common if name.lower() not in replaced])
        kind = encode_headers([("Content-Type", content_type)]) if content_type else b""
        return line + common + self._date + kind
