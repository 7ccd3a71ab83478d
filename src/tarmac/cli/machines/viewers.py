"""Viewers of a VM's display at a port of this computer, which every local user can reach.

So a viewer proves that it has the password before a session is opened for it. Wrong passwords are answered one after
the other, a second each, for all connections together: 36^8 passwords cannot be tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from tarmac.api.status import ApiError
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import first
from tarmac.cli.machines.rfb import (
    CHALLENGE_LENGTH,
    PASSWORD_LENGTH,
    Conversation,
    RfbFault,
    WrongPassword,
    admit,
    enter,
)
from tarmac.cli.verbs.console import Console
from tarmac.client.errors import ClientError
from tarmac.client.websockets import WebSocket

MAX_STRANGERS = 16
PASSWORD_TIMEOUT = 120.0  # people type it after the viewer has connected
GUESS_INTERVAL = 1.0
_CHUNK_SIZE = 64 * 1024


class Viewers:
    """Connections of viewers; `open_screen` opens a session for one."""

    def __init__(
        self, open_screen: Callable[[], Awaitable[WebSocket]], console: Console, clock: Clock, randomness: Randomness
    ) -> None:
        self.password = randomness.secret_letters(PASSWORD_LENGTH)
        self._open_screen = open_screen
        self._console = console
        self._clock = clock
        self._randomness = randomness
        self._strangers = 0
        self._guessing = asyncio.Lock()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a viewer's connection, with its own session."""
        try:
            early = await self._admitted(reader, writer)
            if early is not None:
                await self._show(early, reader, writer)
        except OSError as error:
            self._console.warn(f"the viewer has gone: {error}")
        finally:
            writer.close()

    async def _admitted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """Return the bytes after the opening, or None for a stranger. Raises OSError."""
        if self._strangers >= MAX_STRANGERS:
            return None
        self._strangers += 1
        challenge = self._randomness.randbytes(CHALLENGE_LENGTH)  # fresh: a response is good for one connection
        opening = Conversation(partial(admit, password=self.password, challenge=challenge))
        try:
            async with asyncio.timeout(PASSWORD_TIMEOUT):
                return await self._opened(opening, reader, writer)
        except (RfbFault, TimeoutError) as fault:
            if isinstance(fault, WrongPassword):
                self._console.warn("a viewer was refused: wrong password")
            async with self._guessing:
                await self._clock.sleep(GUESS_INTERVAL)
            writer.write(opening.pending())
            return None
        finally:
            self._strangers -= 1

    async def _opened(
        self, opening: Conversation, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes | None:
        writer.write(opening.pending())
        while not opening.done:
            data = await reader.read(_CHUNK_SIZE)
            if not data:
                return None
            writer.write(opening.receive(data))
        return opening.rest

    async def _show(self, early: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            socket = await self._open_screen()
        except (ApiError, ClientError, OSError) as error:
            self._console.fail(str(error))
            return
        try:
            writer.write(await _entered(socket))
            if early:
                await socket.send(early)
            await first(_to_machine(reader, socket), _to_viewer(socket, writer))
        except RfbFault as fault:
            self._console.fail(str(fault))
        finally:
            if socket.reason:
                self._console.warn(f"the session has ended: {socket.reason}")
            socket.close()


async def _entered(socket: WebSocket) -> bytes:
    """Open RFB with the machine; returns the bytes after the opening. Raises RfbFault, OSError."""
    opening = Conversation(enter)
    while not opening.done:
        message = await socket.receive()
        if message is None:
            raise RfbFault("the machine's screen was closed")
        if answer := opening.receive(message):
            await socket.send(answer)
    return opening.rest


async def _to_machine(reader: asyncio.StreamReader, socket: WebSocket) -> None:
    while data := await reader.read(_CHUNK_SIZE):
        await socket.send(data)


async def _to_viewer(socket: WebSocket, writer: asyncio.StreamWriter) -> None:
    while (message := await socket.receive()) is not None:
        writer.write(message)
        await writer.drain()
