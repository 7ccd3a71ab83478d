"""Common base of the clients of a command: parses and bounds the client's input before it is forwarded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tarmac.agent.http.bridging.sizes import TerminalSizes
from tarmac.agent.http.clientend import ClientEnd
from tarmac.runtimes.interface import CommandStream
from tarmac.wire.channels import Channel


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

    def said(self, channel: Channel, data: bytes, fin: bool = False) -> None:
        """Forward input and terminal sizes; data on other channels is dropped. Raises ProtocolViolation."""
        if channel is Channel.STDIN:
            self._command.write(data)
            if fin:
                self._command.finish_input()
        elif channel is Channel.RESIZE and (size := self._sizes.read(data)) is not None:
            self._command.resize(size)
