"""What only a virtual machine has: a console that several people watch, a display, and a power button.

Console and display are `CommandStream`s. On a console STDIN are keys, STDOUT is what the guest writes, STDERR tells of
the session, one JSON object a message, and ERROR how it ended. On a display STDIN and STDOUT are the bytes of RFB, the
protocol of VNC. Either has one keyboard: the first who asked for it has it, the others watch and get it in order.

A runtime without machines refuses each call with `NotOffered`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tarmac.runtimes.interface.streams import CommandStream, TerminalSize

NO_EXEC: Final = 'a virtual machine has no exec: use "kubectl attach -it", "tarmac console" or ssh'
NOT_A_MACHINE: Final = "not a virtual machine"

PowerAction = Literal["Reboot", "Reset", "Pause", "Resume"]
"""Down and up again in order; up again at once; stand still; go on."""


class SessionRecorder(Protocol):
    """Writes down what somebody saw. Each call may raise OSError, and the session ends then."""

    def output(self, data: bytes) -> None:
        """What the guest wrote."""
        ...

    def resized(self, size: TerminalSize) -> None:
        """The terminal has this size now."""
        ...

    def mark(self, text: str) -> None:
        """Something about the session itself: the keyboard was taken, lost."""
        ...

    def close(self) -> None:
        """The session is over. Called once; raises nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """A session at a console or a display. `record` is called once, when the session is certain to begin.

    With `recorded` off it is told that it is not recorded, whoever listens.
    """

    user: str
    session: str
    keyboard: bool
    takeover: bool = False
    recorded: bool = False
    record: Callable[[], SessionRecorder] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions(SessionOptions):
    """At a console. `since` is the attempt and the offset up to which the client has everything.

    `attached` is for clients that know attach only: notices are lines of the output, and the end of the machine's
    process is the end of the session.
    """

    since: tuple[int, int] | None = None
    attached: bool = False


class Machines(Protocol):
    """Ways into virtual machines, by the id of the container. Each call raises RuntimeFault."""

    async def console_stream(self, id: str, options: ConsoleOptions) -> CommandStream:
        """The serial console. Raises TooManyStreams."""
        ...

    async def display_stream(self, id: str, options: SessionOptions) -> CommandStream:
        """The screen. Raises TooManyStreams."""
        ...

    async def power(self, id: str, action: PowerAction) -> None:
        """Press a button; the same twice is as once. Raises WrongState when it makes no sense now."""
        ...
