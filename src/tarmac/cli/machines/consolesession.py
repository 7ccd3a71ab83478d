"""One console session, over as many connections as it takes.

A broken connection is retried for a minute, from the byte at which it broke, so that no output is lost or repeated. The
session ends when the server reports its end, or when the user leaves with Ctrl-].
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec

from tarmac.api.status import ApiError
from tarmac.base.clock import Clock
from tarmac.base.tasks import first
from tarmac.cli.machines.terminal import Keys, notify_resizes, raw_terminal
from tarmac.cli.rendering.text import printable
from tarmac.client.errors import ClientError
from tarmac.client.websockets import WebSocket
from tarmac.wire.channels import V5, Channel

RECONNECT_TIMEOUT = 60.0
_RETRY_INTERVAL = 1.0
_LEAVE = b"\x1d"  # Ctrl-]

Open = Callable[[str], Awaitable[WebSocket]]
"""Connects; gets `since`, empty the first time. Raises ApiError, ClientError."""


@dataclass
class Progress:
    """The position in the output."""

    attempt: int | None = None
    offset: int = 0

    @property
    def since(self) -> str:
        return "" if self.attempt is None else f"{self.attempt}:{self.offset}"


class ConsoleClient:
    """Output goes to `out`, messages about the session to `say`."""

    def __init__(self, open_socket: Open, out: BinaryIO, say: Callable[[str], None], clock: Clock) -> None:
        self._open = open_socket
        self._out = out
        self._say = say
        self._clock = clock
        self._progress = Progress()
        self._socket: WebSocket | None = None
        self._ended: dict[str, Any] | None = None
        self._left = False

    async def run(self) -> int:
        """Run to the end; returns the exit code. Raises ApiError, ClientError when it does not begin."""
        self._socket = await self._open("")
        with raw_terminal() as terminal:
            if terminal:
                self._say("connected; Ctrl-] leaves")
                with notify_resizes(self._resized):
                    await first(self._type(), self._watch())
            else:
                await first(self._type(), self._watch())
        if self._ended is None or self._ended.get("status") == "Success":
            return 0
        self._say(printable(str(self._ended.get("message", "it ended"))))
        return 1

    async def _watch(self) -> None:
        while True:
            await self._take_all()
            # Leaving closes the connection, which is no loss of it.
            if self._left or self._ended is not None or not await self._reconnect():
                return

    async def _take_all(self) -> None:
        while self._socket is not None and (message := await self._socket.receive()) is not None:
            if message:
                self._take(message[0], message[1:])
            if self._ended is not None:
                return

    def _take(self, channel: int, data: bytes) -> None:
        if channel == Channel.STDOUT:
            self._progress.offset += len(data)
            self._out.write(data)
            self._out.flush()
        elif channel == Channel.STDERR:
            self._handle_notice(data)
        elif channel == Channel.ERROR:
            self._ended = msgspec.json.decode(data)

    def _handle_notice(self, data: bytes) -> None:
        """Handle a notice. Data that is not JSON is the error output of a command."""
        try:
            notice = msgspec.json.decode(data, type=dict[str, Any])
        except (UnicodeError, msgspec.MsgspecError):
            self._out.write(data)
            self._out.flush()
            return
        if isinstance(notice.get("attempt"), int):
            if "session" not in notice:
                self._say("the machine has been restarted")
            self._progress.attempt = notice["attempt"]
        if isinstance(notice.get("offset"), int):
            self._progress.offset = notice["offset"]
        if notice.get("recorded"):
            self._say("this session is recorded")
        if "gap" in notice:
            self._say(f"{notice['gap']} bytes are left out")
        if "keyboard" in notice:
            self._say(_whose(notice))

    async def _reconnect(self) -> bool:
        """Reconnect until the timeout; returns True on success."""
        self._say("the connection was lost; connecting again")
        until = self._clock.monotonic() + RECONNECT_TIMEOUT
        why = ""
        while self._clock.monotonic() < until:
            await self._clock.sleep(_RETRY_INTERVAL)
            try:
                self._socket = await self._open(self._progress.since)
            except ApiError as error:
                why = error.message
                if error.http_code in (400, 401, 403, 404):
                    break
            except (ClientError, OSError) as error:
                why = str(error)
            else:
                self._say("connected again")
                return True
        self._ended = {"status": "Failure", "message": f"the connection was lost: {why}"}
        return False

    async def _type(self) -> None:
        """Pass keys on until the user leaves. After the end of a pipe, output is still shown."""
        keys = Keys()
        try:
            while data := await keys.next():
                typed, leave, _ = data.partition(_LEAVE)
                if typed and self._socket is not None:
                    await self._socket.send(bytes((Channel.STDIN,)), typed)
                if leave:
                    self._left = True
                    return
            if self._socket is not None and self._socket.protocol == V5:
                await self._socket.send(bytes((Channel.CLOSE, Channel.STDIN)))
            await asyncio.get_running_loop().create_future()
        finally:
            keys.close()
            if self._socket is not None and self._left:
                self._socket.close()

    def _resized(self, columns: int, lines: int) -> None:
        size = msgspec.json.encode({"Width": columns, "Height": lines})
        if self._socket is not None:
            self._socket.send_soon(bytes((Channel.RESIZE,)), size)


def _whose(notice: dict[str, Any]) -> str:
    if notice["keyboard"]:
        return "you have the keyboard"
    writer = notice.get("writer")
    if not isinstance(writer, dict):
        return "the keyboard is free"
    return printable(f"{writer.get('user')} has the keyboard since {writer.get('since')}")
