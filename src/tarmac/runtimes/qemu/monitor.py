"""QMP client: one connection to the monitor of a running machine, with commands, responses and events.

QEMU's socket serves one client; a second one connects but gets no response. So each machine has one connection.
Commands run one at a time. A command that times out leaves the connection open: a late response is dropped.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from tarmac.base.tasks import background
from tarmac.runtimes.interface.errors import RuntimeRefused, RuntimeUnreachable
from tarmac.runtimes.qemu.qmp import (
    Command,
    CommandFailure,
    CommandResult,
    Greeting,
    MalformedMessage,
    Message,
    QmpEvent,
    QmpLineSplitter,
    decode_message,
    encode_command,
)
from tarmac.runtimes.qemu.sockets import connect

DEFAULT_TIMEOUT: Final = 10.0
"""Timeout of a response, in seconds."""

_CHUNK = 1 << 16


@asynccontextmanager
async def connected(
    path: str, on_event: Callable[[QmpEvent], None], timeout: float = DEFAULT_TIMEOUT, user: int | None = None
) -> AsyncGenerator[Monitor]:
    """Connect, negotiate capabilities and yield the monitor; disconnect after the block. Raises RuntimeUnreachable.

    With `user`, the listening process must run as that user.
    """
    try:
        end = await connect(path, user, timeout)
    except (OSError, TimeoutError) as error:
        raise RuntimeUnreachable(f"the monitor cannot be reached: {error or 'no answer'}") from None
    with end:
        monitor = Monitor(end, on_event, timeout)
        async with background(monitor.listen(), "qemu monitor"):
            await monitor.greeted()
            await monitor.execute("qmp_capabilities")
            yield monitor


class Monitor:
    """One QMP connection. `on_event` is called for each event, in order, on the event loop, so it must not block."""

    def __init__(self, end: socket.socket, on_event: Callable[[QmpEvent], None], timeout: float) -> None:
        self._end = end
        self._on_event = on_event
        self._timeout = timeout
        self._numbers = 0
        self._turn = asyncio.Lock()
        self._greeting: asyncio.Future[Greeting] = asyncio.get_running_loop().create_future()
        self._waiting: tuple[int, asyncio.Future[Any]] | None = None  # the command in progress
        self._lost: str = ""  # why the connection was lost
        self.lost: Final = asyncio.Event()
        """Set when the connection is lost."""

    async def greeted(self) -> Greeting:
        """Wait for QEMU's greeting. Raises RuntimeUnreachable."""
        return await self._within(self._greeting)

    async def execute(
        self, command: Command, arguments: dict[str, Any] | None = None, descriptors: Sequence[int] = ()
    ) -> Any:
        """Execute a command and return its result. Raises RuntimeRefused with QEMU's error, RuntimeUnreachable."""
        async with self._turn:
            if self._lost:
                raise RuntimeUnreachable(self._lost)
            self._numbers += 1
            answer = asyncio.get_running_loop().create_future()
            self._waiting = (self._numbers, answer)
            try:
                await self._send(encode_command(command, self._numbers, arguments), descriptors)
                return await self._within(answer)
            finally:
                # After a cancellation or timeout, a late response has a number without a waiter, and is dropped.
                self._waiting = None

    async def _within(self, answer: asyncio.Future[Any]) -> Any:
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(answer)
        except TimeoutError:
            raise RuntimeUnreachable(f"the monitor has not answered for {self._timeout:g} s") from None

    async def _send(self, line: bytes, descriptors: Sequence[int]) -> None:
        loop, sent = asyncio.get_running_loop(), 0
        try:
            if descriptors:
                # Descriptors travel with the first byte. Without room for it in the buffer, QEMU hangs: send_fds fails.
                sent = socket.send_fds(self._end, [line], list(descriptors))
            async with asyncio.timeout(self._timeout):
                await loop.sock_sendall(self._end, line[sent:])
        except (OSError, TimeoutError) as error:
            # A part of the line may have been sent, so QEMU could not parse any command after it.
            self._lose(f"the monitor does not take commands: {error or 'it does not read'}")
            raise RuntimeUnreachable(self._lost) from None

    async def listen(self) -> None:
        """Read messages until the connection closes or a message violates the protocol."""
        lines, loop = QmpLineSplitter(), asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(self._end, _CHUNK):
                for line in lines.feed(data):
                    self._take(decode_message(line))
            self._lose("the monitor has closed the connection")
        except MalformedMessage as error:
            self._lose(str(error))
        except OSError as error:
            self._lose(f"the connection to the monitor failed: {error}")

    def _take(self, message: Message) -> None:
        match message:
            case QmpEvent():
                self._on_event(message)
            case Greeting():
                if not self._greeting.done():
                    self._greeting.set_result(message)
            case CommandResult(number, value):
                if waiting := self._waiter(number):
                    waiting.set_result(value)
            case CommandFailure(number, kind, text):
                if waiting := self._waiter(number):
                    waiting.set_exception(RuntimeRefused(f"{text} ({kind})" if kind else text))

    def _waiter(self, number: int | None) -> asyncio.Future[Any] | None:
        """Return the future of the command with that number, unless it is already done."""
        if self._waiting is None or self._waiting[0] != number or self._waiting[1].done():
            return None
        return self._waiting[1]

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self.lost.set()
        waiting = [self._greeting, *([self._waiting[1]] if self._waiting else [])]
        for each in waiting:
            if not each.done():
                each.set_exception(RuntimeUnreachable(self._lost))
                each.exception()  # marks it as retrieved: the waiter may have been cancelled
