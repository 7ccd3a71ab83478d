"""A VNC server with a screen of two colours, for tests of viewers."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path


class TwoColours:
    """A screen with a red left half and a blue right half. Records the viewers' messages after the handshake."""

    def __init__(self, width: int = 40, height: int = 10) -> None:
        self.width = width
        self.height = height
        self.heard = b""

    async def start(self, path: Path) -> asyncio.Server:
        return await asyncio.start_unix_server(self._serve, str(path))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._converse(reader, writer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"RFB 003.008\n")
        assert await reader.readexactly(12) == b"RFB 003.008\n"
        writer.write(b"\x01\x01")
        assert await reader.readexactly(1) == b"\x01"
        writer.write(bytes(4))
        assert await reader.readexactly(1) == b"\x01"
        name = b"two colours"
        writer.write(struct.pack(">HH", self.width, self.height) + bytes(16) + struct.pack(">I", len(name)) + name)
        while True:
            kind = (await reader.readexactly(1))[0]
            rest = {0: 19, 2: 3, 3: 9, 4: 7, 5: 5}[kind]
            data = await reader.readexactly(rest)
            if kind == 2:
                data += await reader.readexactly(4 * int.from_bytes(data[1:3]))
            self.heard += bytes((kind,)) + data
            if kind == 3:
                writer.write(b"\x02" + struct.pack(">BxH", 0, 2))  # a bell, then two halves of the picture
                for left, colour in ((0, b"\0\0\xff\0"), (self.width // 2, b"\xff\0\0\0")):
                    width = self.width // 2
                    writer.write(struct.pack(">HHHHi", left, 0, width, self.height, 0) + colour * width * self.height)
            await writer.drain()
