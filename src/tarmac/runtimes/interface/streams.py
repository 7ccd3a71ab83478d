"""Commands in containers, and duplex streams to them.

A `CommandStream` is open when it is handed out: what it leads to has agreed to every channel that was asked for, so a
refusal can still be told in the answer to a client's request. Nothing is read from it until `begin`. Then what the
command says goes to the `StreamClient` without tasks in between, and either side that is backed up stops the reading of
the other. The stream is over when the command has ended and said so on the error channel, as a Status in JSON
(`tarmac.wire.channels`), or when either side goes.

Forwarded ports are no business of a runtime: the agent dials the address of the pod (`tarmac.agent.http.ports`), which
is the same for every driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tarmac.wire.channels import Channel


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command said."""

    stdout: bytes
    stderr: bytes
    exit_code: int


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Which channels a client wants. A terminal has one output, so with `tty` there is no `stderr`."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    def channels(self) -> list[Channel]:
        """All of them, the error channel first."""
        chosen = {Channel.STDIN: self.stdin, Channel.STDOUT: self.stdout, Channel.STDERR: self.stderr}
        channels = [Channel.ERROR, *(channel for channel, wanted in chosen.items() if wanted)]
        return [*channels, Channel.RESIZE] if self.tty else channels


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Columns and lines, 0 to 65535 each."""

    width: int
    height: int


class StreamClient(Protocol):
    """Who a stream is for. None of the calls may wait."""

    def output(self, channel: Channel, data: bytes) -> None:
        """Queue what the command said."""
        ...

    def finish(self, channel: Channel) -> None:
        """Nothing more comes on a channel."""
        ...

    def flush(self) -> None:
        """Send what is queued."""
        ...

    def end(self) -> None:
        """Everything was said."""
        ...

    def hold(self, held: bool) -> None:
        """One more, or one less, reason not to read from the client: the command does not take what it is sent."""
        ...


class CommandStream(Protocol):
    """An open stream to a process in a container."""

    def attach(self, client: StreamClient) -> None:
        """There is a client: it may send, and is held up if that is too fast."""
        ...

    def begin(self) -> None:
        """The client can take what comes: hand it what is there already, and go on."""
        ...

    def write(self, data: bytes) -> None:
        """Standard input; lost when it was not asked for."""
        ...

    def finish_input(self) -> None:
        """Standard input is over."""
        ...

    def resize(self, size: TerminalSize) -> None:
        """The terminal has another size; lost when there is none."""
        ...

    def read(self, wanted: bool) -> None:
        """One less, or one more, reason not to read what the command says: whether the client takes it."""
        ...

    def close(self) -> None:
        """The client has gone."""
        ...

    def abort(self) -> None:
        """Nobody came for it: drop everything at once."""
        ...


class Streams(Protocol):
    """Runs commands in containers. Each call raises RuntimeFault."""

    async def exec(self, id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Run to its end. Raises TimeoutError."""
        ...

    async def exec_stream(self, id: str, command: Sequence[str], options: StreamOptions) -> CommandStream:
        """A stream to a new process."""
        ...

    async def attach_stream(self, id: str, options: StreamOptions) -> CommandStream:
        """A stream to the container's own process."""
        ...
