"""What both kinds of client of a command have in common: what they say is read, bounded and handed on in our words."""

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
        """Queue what the command said."""
        raise NotImplementedError

    def finish(self, channel: Channel) -> None:
        """Nothing more comes on a channel."""
        raise NotImplementedError

    def end(self) -> None:
        """Everything was said."""
        raise NotImplementedError

    def said(self, channel: Channel, data: bytes, fin: bool = False) -> None:
        """Hand on what the client says; channels that are no input lead nowhere. Raises Violation."""
        if channel is Channel.STDIN:
            self._command.write(data)
            if fin:
                self._command.finish_input()
        elif channel is Channel.RESIZE and (size := self._sizes.read(data)) is not None:
            self._command.resize(size)
