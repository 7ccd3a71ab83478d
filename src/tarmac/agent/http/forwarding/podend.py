"""The pod's side of a forwarded port: one TCP connection, made when its lane opens."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from tarmac.base.tasks import Tasks

Dial = Callable[[int], Awaitable[socket.socket]]
"""Connects to a port of the pod. Raises OSError."""

_EARLY = 64 * 1024  # bytes kept for a connection that is still being made, before the client is held up


class Lane(Protocol):
    """The client's side of one connection. It ends when the pod has said all: kubectl waits for that, and only that."""

    @property
    def backed_up(self) -> bool:
        """Whether the client does not take what it is sent."""
        ...

    def send(self, data: bytes) -> None: ...
    def closed(self, error: str | None) -> None:
        """It is over; `error` says why, if the pod could not be reached or the connection broke."""
        ...

    def hold(self, held: bool) -> None:
        """Whether the pod is backed up."""
        ...


class PodEnd(asyncio.Protocol):
    """One TCP connection to the pod, made when the lane opens."""

    def __init__(self, lane: Lane, dial: Dial, port: int) -> None:
        self._lane = lane
        self._port = port
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._early_size = 0
        self._no_more = False  # the client will send nothing more
        self._gone = False
        self._holding = False
        self._connecting = Tasks()
        self._connecting.begin(self._connect(dial), f"connection to port {port} of a pod")

    def write(self, data: bytes) -> None:
        """What the client sends."""
        if self._transport is not None:
            if not self._transport.is_closing():
                self._transport.write(data)
        elif not self._gone:
            self._early.append(data)
            self._early_size += len(data)
            self._hold(self._early_size > _EARLY)

    def finish(self) -> None:
        """The client will send nothing more."""
        self._no_more = True
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write_eof()

    def close(self) -> None:
        """The client has gone."""
        self._gone = True
        self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()

    def read(self, wanted: bool) -> None:
        """Whether the client takes what the pod sends."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.resume_reading() if wanted else transport.pause_reading()

    async def _connect(self, dial: Dial) -> None:
        try:
            connected = await dial(self._port)
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, sock=connected)
            except BaseException:
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
        if self._no_more:
            self.finish()
        # Not at once: a transport begins to read only after this.
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
