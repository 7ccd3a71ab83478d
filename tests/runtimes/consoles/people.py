"""Clients of a console, and a fake machine for them."""

from __future__ import annotations

import json
from typing import Any

from tarmac.runtimes.consoles import MachineConsole
from tarmac.runtimes.interface import CommandStream, ConsoleOptions, TerminalSize
from tarmac.wire.channels import Channel


class Person:
    """A client that reads all output, unless it is stuck."""

    def __init__(self, stream: CommandStream) -> None:
        self.stream = stream
        self.output_seen = b""
        self.notices: list[dict[str, Any]] = []
        self.ended: dict[str, Any] | None = None
        self.held = 0
        stream.attach(self)
        stream.begin()

    def output(self, channel: Channel, data: bytes) -> None:
        if channel is Channel.STDOUT:
            self.output_seen += data
        elif channel is Channel.STDERR:
            self.notices.append(json.loads(data))
        elif channel is Channel.ERROR:
            self.ended = json.loads(data)

    def finish(self, channel: Channel) -> None:
        """No end without a status."""

    def flush(self) -> None:
        """All output is read at once."""

    def end(self) -> None:
        assert self.ended is not None, "the session ended without a status"

    def hold(self, held: bool) -> None:
        self.held += 1 if held else -1

    @property
    def has_keyboard(self) -> bool:
        return [each["keyboard"] for each in self.notices if "keyboard" in each][-1]


class Notes:
    """A recorder that keeps its entries."""

    def __init__(self, full: bool = False) -> None:
        self.events: list[tuple[str, Any]] = []
        self.full = full

    def output(self, data: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.events.append(("o", data))

    def resized(self, size: TerminalSize) -> None:
        self.events.append(("r", (size.width, size.height)))

    def mark(self, text: str) -> None:
        self.events.append(("m", text))

    def close(self) -> None:
        self.events.append(("m", "end"))


def come(console: MachineConsole, user: str, **options: Any) -> Person:
    """Open a session for a user."""
    given: dict[str, Any] = {"session": f"session-of-{user}", "keyboard": True, **options}
    return Person(console.open(ConsoleOptions(user=user, **given)))
