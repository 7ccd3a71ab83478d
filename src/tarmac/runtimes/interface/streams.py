"""Commands in containers, and duplex streams to them.

A `CommandStream` is open when it is returned: its target has accepted every requested channel, so a rejection can still
be reported in the response to the client's request. It delivers no data before `begin`. Then output goes to the
`StreamClient` without tasks in between, and backpressure works both ways: a side that cannot accept data pauses reading
from the other one. The stream ends when the command has exited and its Status was sent as JSON on the error channel
(`tarmac.wire.channels`), or when either side disconnects.

Port forwarding is not part of a runtime: the agent connects to the pod's address (`tarmac.agent.http.podports`), which
works the same for every driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tarmac.wire.channels import Channel


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Output and exit code of a command."""

    stdout: bytes
    stderr: bytes
    exit_code: int


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The channels that a client requests. A terminal has one output, so with `tty` there is no `stderr`."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    def channels(self) -> list[Channel]:
        """Return the requested channels, the error channel first."""
        chosen = {Channel.STDIN: self.stdin, Channel.STDOUT: self.stdout, Channel.STDERR: self.stderr}
        channels = [Channel.ERROR, *(channel for channel, wanted in chosen.items() if wanted)]
        return [*channels, Channel.RESIZE] if self.tty else channels


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Columns and lines, 0 to 65535 each."""

    width: int
    height: int


class StreamClient(Protocol):
    """The receiver of a stream's output. None of the methods may block."""

    def output(self, channel: Channel, data: bytes) -> None:
        """Queue output of the command."""
        ...

    def finish(self, channel: Channel) -> None:
        """Mark the end of a channel."""
        ...

    def flush(self) -> None:
        """Send queued output."""
        ...

    def end(self) -> None:
        """Mark the end of the stream."""
        ...

    def hold(self, held: bool) -> None:
        """Add or remove one reason to pause reading from the client: the command does not accept input."""
        ...


class CommandStream(Protocol):
    """An open stream to a process in a container."""

    def attach(self, client: StreamClient) -> None:
        """Set the client. It may send from now on, and is paused if it sends too fast."""
        ...

    def begin(self) -> None:
        """Start delivery to the client, beginning with output received so far."""
        ...

    def write(self, data: bytes) -> None:
        """Write to standard input; dropped if it was not requested."""
        ...

    def finish_input(self) -> None:
        """Close standard input."""
        ...

    def resize(self, size: TerminalSize) -> None:
        """Change the size of the terminal; ignored without one."""
        ...

    def read(self, wanted: bool) -> None:
        """Remove or add one reason to pause reading the output: the client does (not) accept data."""
        ...

    def close(self) -> None:
        """Close the stream: the client has disconnected."""
        ...

    def abort(self) -> None:
        """Close the stream at once, dropping queued data: no client will use it."""
        ...


class Streams(Protocol):
    """Runs commands in containers. Each call raises RuntimeFault."""

    async def exec(self, id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Run a command and return its output. Raises TimeoutError."""
        ...

    async def exec_stream(self, id: str, command: Sequence[str], options: StreamOptions) -> CommandStream:
        """Open a stream to a new process."""
        ...

    async def attach_stream(self, id: str, options: StreamOptions) -> CommandStream:
        """Open a stream to the container's main process."""
        ...
