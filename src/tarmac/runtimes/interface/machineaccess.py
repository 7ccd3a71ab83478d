"""Access to virtual machines: a console shared by several sessions, a display, and power actions.

Console and display are `CommandStream`s. On a console STDIN carries keys, STDOUT the guest's output, STDERR notices
about the session, one JSON object per message, and ERROR the exit status. On a display STDIN and STDOUT carry RFB, the
protocol of VNC. Each has one keyboard: the first session to request it gets it; later ones watch and get it in order.

A runtime without machines rejects each call with `NotOffered`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tarmac.runtimes.interface.streams import CommandStream, TerminalSize

NO_EXEC: Final = 'a virtual machine has no exec: use "kubectl attach -it", "tarmac console" or ssh'
NOT_A_MACHINE: Final = "not a virtual machine"

PowerAction = Literal["Reboot", "Reset", "Pause", "Resume"]
"""Shut down and start again; restart at once; pause; resume."""


class SessionRecorder(Protocol):
    """Records a session's output. Each call may raise OSError, and the session ends then."""

    def output(self, data: bytes) -> None:
        """Record output of the guest."""
        ...

    def resized(self, size: TerminalSize) -> None:
        """Record a new size of the terminal."""
        ...

    def mark(self, text: str) -> None:
        """Record an event of the session itself: keyboard gained or lost."""
        ...

    def close(self) -> None:
        """Finish the recording. Called once; raises nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Options of a console or display session. `record` is called once, when the session is certain to start.

    With `recorded` off the client is told that the session is not recorded, even if `record` is set.
    """

    user: str
    session: str
    keyboard: bool
    takeover: bool = False
    recorded: bool = False
    record: Callable[[], SessionRecorder] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions(SessionOptions):
    """Options of a console session. `since` is the attempt and offset up to which the client already has the output.

    `attached` is for clients that support attach only: notices are lines of the output, and the session ends with the
    machine's process.
    """

    since: tuple[int, int] | None = None
    attached: bool = False


class Machines(Protocol):
    """Access to virtual machines, by container id. Each call raises RuntimeFault."""

    async def console_stream(self, id: str, options: ConsoleOptions) -> CommandStream:
        """Open the serial console. Raises TooManyStreams."""
        ...

    async def display_stream(self, id: str, options: SessionOptions) -> CommandStream:
        """Open the display. Raises TooManyStreams."""
        ...

    async def power(self, id: str, action: PowerAction) -> None:
        """Execute a power action; repeating one has no further effect. Raises WrongState if it is invalid now."""
        ...
