"""Common base of the clients of a command: parses and bounds the client's input before it is forwarded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import msgspec

from tarmac.agent.http.clientend import ClientEnd
from tarmac.runtimes.interface import CommandStream, TerminalSize
from tarmac.wire.channels import Channel
from tarmac.wire.violations import ProtocolViolation

MAX_BYTES = 256


# Terminal sizes as clients send them: concatenated JSON objects, split anywhere.
#
# An object is limited to `MAX_BYTES` bytes: an unterminated string would otherwise grow without bound here, and then in
# the runtime. Only two numbers are read of it. Malformed objects are skipped, since the next one may be valid.


class _Size(msgspec.Struct, rename="pascal"):
    width: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    height: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


_decode = msgspec.json.Decoder(_Size).decode


class TerminalSizes:
    """Incremental parser of terminal sizes."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = b""

    def read(self, data: bytes) -> TerminalSize | None:
        """Return the last size completed by these bytes; earlier ones are obsolete. Raises ProtocolViolation."""
        *whole, self._begun = (self._begun + data).split(b"}")
        if len(self._begun) > MAX_BYTES:
            raise ProtocolViolation(f"the size of a terminal takes more than {MAX_BYTES} bytes")
        for each in reversed(whole):
            if len(each) <= MAX_BYTES and (size := _size(each + b"}")) is not None:
                return TerminalSize(size.width, size.height)
        return None


def _size(text: bytes) -> _Size | None:
    try:
        return _decode(text)
    except (UnicodeError, msgspec.MsgspecError):
        return None


class CommandClient(ClientEnd):
    """The client's end of an exec or attach."""

    def __init__(self, transport: asyncio.Transport, command: CommandStream, tunnelled: bool) -> None:
        super().__init__(transport, tunnelled)
        self._command = command
        self._sizes = TerminalSizes()

    def start(self, rest: bytes) -> None:
        self._command.attach(self)
        super().start(rest)

    def ends(self) -> Sequence[CommandStream]:
        return (self._command,)

    def output(self, channel: Channel, data: bytes) -> None:
        """Queue output of the command."""
        raise NotImplementedError

    def finish(self, channel: Channel) -> None:
        """Handle the end of an output channel."""
        raise NotImplementedError

    def end(self) -> None:
        """Close after all output."""
        raise NotImplementedError

    def on_data(self, channel: Channel, data: bytes, fin: bool = False) -> None:
        """Forward input and terminal sizes; data on other channels is dropped. Raises ProtocolViolation."""
        if channel is Channel.STDIN:
            self._command.write(data)
            if fin:
                self._command.finish_input()
        elif channel is Channel.RESIZE and (size := self._sizes.read(data)) is not None:
            self._command.resize(size)
