"""The pod's side of a forwarded port: one TCP connection, opened with its lane."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from tarmac.base.tasks import Tasks

Dial = Callable[[int], Awaitable[socket.socket]]
"""Connects to a port of the pod. Raises OSError."""

_MAX_EARLY = 64 * 1024  # bytes buffered while connecting, before the client is paused


class Lane(Protocol):
    """The client's side of one connection. It ends when the pod has sent everything: kubectl waits only for that."""

    @property
    def backed_up(self) -> bool:
        """True while the client does not read."""
        ...

    def send(self, data: bytes) -> None: ...
    def closed(self, error: str | None) -> None:
        """Handle the end of the connection; `error` is set if the pod was unreachable or the connection broke."""
        ...

    def hold(self, held: bool) -> None:
        """Pause or resume the client: the pod's write buffer is full or has drained."""
        ...


class PodEnd(asyncio.Protocol):
    """One TCP connection to the pod, opened with the lane."""

    def __init__(self, lane: Lane, dial: Dial, port: int) -> None:
        self._lane = lane
        self._port = port
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._early_size = 0
        self._no_more = False  # the client has finished sending
        self._gone = False
        self._holding = False
        self._connecting = Tasks()
        self._connecting.begin(self._connect(dial), f"connection to port {port} of a pod")

    def write(self, data: bytes) -> None:
        """Send data of the client, or buffer it while connecting."""
        if self._transport is not None:
            if not self._transport.is_closing():
                self._transport.write(data)
        elif not self._gone:
            self._early.append(data)
            self._early_size += len(data)
            self._hold(self._early_size > _MAX_EARLY)

    def finish(self) -> None:
        """Half-close: the client has finished sending."""
        self._no_more = True
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write_eof()

    def close(self) -> None:
        """Abort: the client has disconnected."""
        self._gone = True
        self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()

    def read(self, wanted: bool) -> None:
        """Resume or pause reading from the pod."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.resume_reading() if wanted else transport.pause_reading()

    async def _connect(self, dial: Dial) -> None:
        try:
            connected = await dial(self._port)
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, sock=connected)
            except BaseException:
                # Also on cancellation: the client may disconnect meanwhile, and the socket would leak.
                connected.close()
                raise
        except OSError as error:
            self._gone = True
            self._hold(False)
            self._lane.closed(f"failed to connect to port {self._port}: {error}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        for data in self._early:
            self._transport.write(data)
        self._early.clear()
        self._hold(False)
        # After the early data: a write after the half-close would fail.
        if self._no_more:
            self.finish()
        # Deferred: the transport starts reading only after this callback, which would undo a pause.
        asyncio.get_running_loop().call_soon(self._match_client)

    def _match_client(self) -> None:
        if self._lane.backed_up:
            self.read(False)

    def data_received(self, data: bytes) -> None:
        self._lane.send(data)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._hold(True)

    def resume_writing(self) -> None:
        self._hold(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hold(False)
        if self._gone:
            return
        self._gone = True
        self._lane.closed(None if exc is None else f"connection to port {self._port} broke: {exc}")

    def _hold(self, held: bool) -> None:
        if held is not self._holding:
            self._holding = held
            self._lane.hold(held)
