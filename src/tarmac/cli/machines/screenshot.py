"""One picture of a display: an RFB client without any I/O, and PNG.

It requests the whole display in raw pixels, once, and is done when every pixel has arrived. A server that announces
more pixels than any display has, or sends unrequested data, is rejected.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from tarmac.cli.machines.rfb import Conversation, RfbFault, Steps, enter

MAX_PIXELS: Final = 16 * 1024 * 1024
_FORMAT: Final = struct.pack(">BxxxBBBBHHHBBBxxx", 0, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
_RAW, _DESKTOP_SIZE = 0, -223
_ENCODINGS: Final = struct.pack(">BxHii", 2, 2, _RAW, _DESKTOP_SIZE)
_MAX_TEXT: Final = 1024 * 1024


class Screenshot:
    """Parses the server's messages and builds the responses. `done` once the picture is complete."""

    def __init__(self) -> None:
        self.width = 0
        self.height = 0
        self._pixels = bytearray()
        self._missing = 0
        self._out: list[bytes] = []
        self._talk = Conversation(self._conversation)

    @property
    def done(self) -> bool:
        """True once the picture is complete."""
        return self._talk.done

    def receive(self, data: bytes) -> bytes:
        """Take bytes; returns the bytes to send. Raises RfbFault."""
        return self._talk.receive(data)

    def png(self) -> bytes:
        """Return the picture."""
        rows = bytearray()
        for row in range(self.height):
            line = self._pixels[row * self.width * 4 : (row + 1) * self.width * 4]
            rgb = bytearray(self.width * 3)
            rgb[0::3], rgb[1::3], rgb[2::3] = line[2::4], line[1::4], line[0::4]
            rows += b"\0" + rgb
        head = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        parts = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(bytes(rows))), _chunk(b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(parts)

    def _conversation(self, out: list[bytes]) -> Steps:
        """Run the protocol; yields the number of bytes needed next."""
        self._out = out
        yield from enter(out)
        out.append(b"\x01")
        head = yield 24
        yield from self._skip(int.from_bytes(head[20:24]))
        self._out += (_FORMAT, _ENCODINGS)
        self._resize(*struct.unpack(">HH", head[:4]))
        while self._missing > 0:
            yield from self._message((yield 1)[0])

    def _message(self, kind: int) -> Steps:
        if kind == 0:
            head = yield 3
            for _ in range(int.from_bytes(head[1:3])):
                yield from self._rectangle(struct.unpack(">HHHHi", (yield 12)))
        elif kind == 1:
            yield from self._skip(6 * int.from_bytes((yield 5)[3:5]))
        elif kind == 3:
            yield from self._skip(int.from_bytes((yield 7)[3:7]))
        elif kind != 2:  # a bell
            raise RfbFault(f"a message of unknown kind {kind}")

    def _rectangle(self, head: tuple[int, ...]) -> Steps:
        left, top, width, height, encoding = head
        if encoding == _DESKTOP_SIZE:
            self._resize(width, height)
            return
        if encoding != _RAW or left + width > self.width or top + height > self.height:
            raise RfbFault("a part of the picture that was not asked for")
        for row in range(top, top + height):
            begin = (row * self.width + left) * 4
            if width:
                self._pixels[begin : begin + width * 4] = yield width * 4
        self._missing -= width * height

    def _resize(self, width: int, height: int) -> None:
        if not 0 < width * height <= MAX_PIXELS:
            raise RfbFault(f"a screen of {width}x{height}")
        self.width, self.height, self._missing = width, height, width * height
        self._pixels = bytearray(width * height * 4)
        self._out.append(struct.pack(">BBHHHH", 3, 0, 0, 0, width, height))

    def _skip(self, length: int) -> Steps:
        if length > _MAX_TEXT:
            raise RfbFault("a text without an end")
        if length:
            yield length


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
