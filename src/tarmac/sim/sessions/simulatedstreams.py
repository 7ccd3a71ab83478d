"""A stream to a simulated process: exec's shell, or attach's log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tarmac.base.tasks import Tasks
from tarmac.runtimes.interface import StreamClient, StreamOptions, TerminalSize
from tarmac.sim.sessions.terminal import Terminal
from tarmac.wire.channels import Channel, exited

Work = Callable[[Terminal], Awaitable[int]]
"""Runs the process on a terminal; returns its exit code."""


class SimulatedStream:
    """Implements `CommandStream`. The process starts at `begin` and is cancelled when the client disconnects."""

    def __init__(self, options: StreamOptions, work: Work, tasks: Tasks) -> None:
        self._options = options
        self._work = work
        self._tasks = tasks
        self._terminal = Terminal(options.tty, self._put, self._hold)
        self._client: StreamClient | None = None
        self._task: asyncio.Task[None] | None = None
        if not options.stdin:
            self._terminal.end()

    def attach(self, client: StreamClient) -> None:
        self._client = client

    def begin(self) -> None:
        self._task = self._tasks.begin(self._run(), "a simulated process")

    def write(self, data: bytes) -> None:
        self._terminal.feed(data)

    def finish_input(self) -> None:
        self._terminal.end()

    def resize(self, size: TerminalSize) -> None:
        """Ignored: no output depends on the size."""

    def read(self, wanted: bool) -> None:
        self._terminal.accept(wanted)

    def close(self) -> None:
        self._client = None
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        self.close()

    async def _run(self) -> None:
        code = await self._work(self._terminal)
        if self._client is not None:
            self._client.output(Channel.ERROR, exited(code))
            self._client.flush()
            self._client.end()

    def _put(self, data: bytes, error: bool) -> None:
        wanted = self._options.stderr if error else self._options.stdout
        if self._client is not None and wanted:
            self._client.output(Channel.STDERR if error else Channel.STDOUT, data)
            self._client.flush()

    def _hold(self, held: bool) -> None:
        if self._client is not None:
            self._client.hold(held)
