"""One connection to the monitor of a running machine: commands, their answers, and events as they come.

QEMU's socket serves one client, and a second one connects and hears nothing; so there is one of these for each machine.
Commands go one after the other. One that is not answered in time leaves the connection as it is: its answer, when it
comes, belongs to nobody, and the machine goes on.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from tarmac.base.tasks import background
from tarmac.runtimes.interface.errors import RuntimeRefused, Unreachable
from tarmac.runtimes.qemu.qmp import (
    Answer,
    Command,
    Event,
    Failure,
    Greeting,
    Lines,
    Malformed,
    Message,
    decode_message,
    encode_command,
)
from tarmac.runtimes.qemu.sockets import connect

PATIENCE: Final = 10.0
"""Seconds that an answer may take."""

_CHUNK = 1 << 16


@asynccontextmanager
async def connected(
    path: str, heard: Callable[[Event], None], patience: float = PATIENCE, user: int | None = None
) -> AsyncGenerator[Monitor]:
    """A monitor that has greeted and takes commands, for as long as the block lasts. Raises Unreachable.

    With `user`, whoever listens must run as that.
    """
    try:
        end = await connect(path, user, patience)
    except (OSError, TimeoutError) as error:
        raise Unreachable(f"the monitor cannot be reached: {error or 'no answer'}") from None
    with end:
        monitor = Monitor(end, heard, patience)
        async with background(monitor.listen(), "qemu monitor"):
            await monitor.greeted()
            await monitor.execute("qmp_capabilities")
            yield monitor


class Monitor:
    """The client's end. `heard` is called for each event, in order, and must not take long."""

    def __init__(self, end: socket.socket, heard: Callable[[Event], None], patience: float) -> None:
        self._end = end
        self._heard = heard
        self._patience = patience
        self._numbers = 0
        self._turn = asyncio.Lock()
        self._greeting: asyncio.Future[Greeting] = asyncio.get_running_loop().create_future()
        self._waiting: tuple[int, asyncio.Future[Any]] | None = None  # the command whose answer is expected
        self._lost: str = ""  # why nothing will come any more
        self.lost: Final = asyncio.Event()
        """Set when nothing will come any more."""

    async def greeted(self) -> Greeting:
        """QEMU's first words. Raises Unreachable."""
        return await self._within(self._greeting)

    async def execute(
        self, command: Command, arguments: dict[str, Any] | None = None, descriptors: Sequence[int] = ()
    ) -> Any:
        """What the command returns. Raises RuntimeRefused with QEMU's words, Unreachable when there is no answer."""
        async with self._turn:
            if self._lost:
                raise Unreachable(self._lost)
            self._numbers += 1
            answer = asyncio.get_running_loop().create_future()
            self._waiting = (self._numbers, answer)
            try:
                await self._send(encode_command(command, self._numbers, arguments), descriptors)
                return await self._within(answer)
            finally:
                # Cancelled or late: the answer that may still come has a number that nobody waits for.
                self._waiting = None

    async def _within(self, answer: asyncio.Future[Any]) -> Any:
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(answer)
        except TimeoutError:
            raise Unreachable(f"the monitor has not answered for {self._patience:g} s") from None

    async def _send(self, line: bytes, descriptors: Sequence[int]) -> None:
        loop, sent = asyncio.get_running_loop(), 0
        try:
            if descriptors:
                # They travel with the first byte. A buffer that has no room for one is that of a QEMU that hangs.
                sent = socket.send_fds(self._end, [line], list(descriptors))
            async with asyncio.timeout(self._patience):
                await loop.sock_sendall(self._end, line[sent:])
        except (OSError, TimeoutError) as error:
            # A part of a line may have gone out, so nothing that follows it would be understood.
            self._lose(f"the monitor does not take commands: {error or 'it does not read'}")
            raise Unreachable(self._lost) from None

    async def listen(self) -> None:
        """Take what comes until the other end, or the protocol, does."""
        lines, loop = Lines(), asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(self._end, _CHUNK):
                for line in lines.feed(data):
                    self._take(decode_message(line))
            self._lose("the monitor has closed the connection")
        except Malformed as error:
            self._lose(str(error))
        except OSError as error:
            self._lose(f"the connection to the monitor failed: {error}")

    def _take(self, message: Message) -> None:
        match message:
            case Event():
                self._heard(message)
            case Greeting():
                if not self._greeting.done():
                    self._greeting.set_result(message)
            case Answer(number, value):
                if waiting := self._waiter(number):
                    waiting.set_result(value)
            case Failure(number, kind, text):
                if waiting := self._waiter(number):
                    waiting.set_exception(RuntimeRefused(f"{text} ({kind})" if kind else text))

    def _waiter(self, number: int | None) -> asyncio.Future[Any] | None:
        """Who waits for an answer of that number, and for the first one."""
        if self._waiting is None or self._waiting[0] != number or self._waiting[1].done():
            return None
        return self._waiting[1]

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self.lost.set()
        waiting = [self._greeting, *([self._waiting[1]] if self._waiting else [])]
        for each in waiting:
            if not each.done():
                each.set_exception(Unreachable(self._lost))
                each.exception()  # somebody may have stopped waiting; then it is nobody's
