"""Parses the messages of a VNC viewer far enough to tell input from requests.

    ProtocolVersion 12 · security type 1 · ClientInit 1, then messages:
    0 SetPixelFormat 20      3 FramebufferUpdateRequest 10   6 ClientCutText 8+n
    2 SetEncodings 4+4n      4 KeyEvent 8, 5 PointerEvent 6  255 QEMU: 0 extended key 12
    251 SetDesktopSize 8+16n

Keys, pointer events, cut text and screen sizes change the machine's state; they are dropped for viewers without the
keyboard. An unknown message, and a cut text above 256 KiB, ends the session: the length of an unknown message cannot be
determined. Only the head of a message is buffered, so memory use is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_CUT_TEXT: Final = 256 * 1024
_OPENING: Final = (12, 1, 1)
_VERSIONS: Final = (b"RFB 003.003\n", b"RFB 003.007\n", b"RFB 003.008\n")
_NO_AUTHENTICATION: Final = b"\x01"
_SET_ENCODINGS, _CUT_TEXT, _SET_DESKTOP_SIZE, _QEMU = 2, 6, 251, 255
_HEADS: Final = {0: 20, _SET_ENCODINGS: 4, 3: 10, 4: 8, 5: 6, _CUT_TEXT: 8, _SET_DESKTOP_SIZE: 8, _QEMU: 2}
_CHANGES: Final = frozenset({4, 5, _CUT_TEXT, _SET_DESKTOP_SIZE, _QEMU})


class NotRfb(Exception):
    """A viewer's message is unknown or too long."""


class ViewerMessages:
    """The parser for one viewer."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._opening = list(_OPENING)
        self._left = 0  # bytes left of the current message, after its head
        self._passed = True  # forward these bytes, or drop them

    def pass_on(self, data: bytes, may_change: bool) -> bytes:
        """Return the bytes to forward to the server. Raises NotRfb."""
        return b"".join(self._pieces(data, may_change))

    def _pieces(self, data: bytes, may_change: bool) -> Iterator[bytes]:
        place = 0
        while place < len(data):
            if self._left:
                piece = data[place : place + self._left]
                self._left -= len(piece)
                place += len(piece)
                if self._passed:
                    yield piece
                continue
            wanted = self._wanted(data[place])
            piece = data[place : place + wanted - len(self._head)]
            place += len(piece)
            self._head += piece
            if len(self._head) == wanted:
                head = bytes(self._head)
                self._head.clear()
                yield self._begun(head, may_change)

    def _wanted(self, first: int) -> int:
        """Return the length of the current head, which may begin with this byte."""
        if self._opening:
            return self._opening[0]
        kind = self._head[0] if self._head else first
        if kind not in _HEADS:
            raise NotRfb(f"a message of unknown kind {kind}")
        return _HEADS[kind]

    def _begun(self, head: bytes, may_change: bool) -> bytes:
        """Handle a complete head; return its bytes to forward."""
        if self._opening:
            return self._opened(head)
        kind = head[0]
        # Decided here for the whole message: a viewer that gets the keyboard in the middle of one sends none of it.
        self._passed = may_change or kind not in _CHANGES
        self._left = _behind(kind, head)
        return head if self._passed else b""

    def _opened(self, head: bytes) -> bytes:
        length = self._opening.pop(0)
        if length == 12:
            if head not in _VERSIONS:
                raise NotRfb("no version of RFB that is spoken here")
            if head == _VERSIONS[0]:
                del self._opening[0]  # in version 3.3 the server chooses the security type
        elif len(self._opening) == 1 and head != _NO_AUTHENTICATION:
            raise NotRfb("a way to authenticate that was not offered")
        # ClientInit, the last byte of the opening, is always sent as "shared": other viewers stay connected.
        return head if self._opening else b"\x01"


def _behind(kind: int, head: bytes) -> int:
    """Return the number of bytes after the head. Raises NotRfb."""
    if kind == _SET_ENCODINGS:
        return 4 * int.from_bytes(head[2:4])
    if kind == _SET_DESKTOP_SIZE:
        return 16 * head[6]
    if kind == _CUT_TEXT:
        # A negative length announces an extended message of as many bytes.
        length = abs(int.from_bytes(head[4:8], signed=True))
        if length > MAX_CUT_TEXT:
            raise NotRfb(f"a cut text of {length} bytes; {MAX_CUT_TEXT} is the most")
        return length
    if kind == _QEMU:
        if head[1] != 0:
            raise NotRfb(f"a message of QEMU's of unknown kind {head[1]}")
        return 10
    return 0
