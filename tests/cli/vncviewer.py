"""A VNC viewer's handshake, for tests: version 3.8, 3.7 or 3.3, with a password."""

from __future__ import annotations

import asyncio

from tarmac.cli.machines.rfb import response


async def challenged(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: str = "003.008") -> bytes:
    """Return the challenge of the server."""
    assert await reader.readexactly(12) == b"RFB 003.008\n"
    writer.write(f"RFB {version}\n".encode())
    if version == "003.003":
        assert await reader.readexactly(4) == b"\0\0\0\x02"
    else:
        assert await reader.readexactly(2) == b"\x01\x02", "a password, and no other authentication"
        writer.write(b"\x02")
    return await reader.readexactly(16)


async def shown_password(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, password: str, version: str = "003.008"
) -> bytes:
    """Return the server's result."""
    writer.write(response(password, await challenged(reader, writer, version)))
    return await reader.readexactly(4)
