"""The screen of one machine: one connection per viewer, and one keyboard for all of them.

QEMU serves each viewer on its own connection. Messages of viewers are parsed (`rfb`): keys and pointer events of all
viewers except the owner of the keyboard are dropped. QEMU's output is forwarded unchanged. Nothing is drawn or stored
here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from tarmac.http.pacing import Paced
from tarmac.runtimes.consoles.keyboardorder import KeyboardOrder
from tarmac.runtimes.consoles.rfb import NotRfb, ViewerMessages
from tarmac.runtimes.interface import (
    RuntimeRefused,
    SessionOptions,
    SessionRecorder,
    StreamClient,
    TerminalSize,
    TooManyStreams,
)
from tarmac.wire.channels import Channel, exited, failure

MAX_VIEWERS = 8
ConnectDisplay = Callable[[Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Connects to the machine's VNC server. Raises OSError."""


class Display:
    """The display of one machine."""

    def __init__(self, connect: ConnectDisplay) -> None:
        self._connect = connect
        self._viewers: list[DisplaySession] = []
        self._order: KeyboardOrder[DisplaySession] = KeyboardOrder()

    def __len__(self) -> int:
        return len(self._viewers)

    async def open(self, options: SessionOptions) -> DisplaySession:
        """Open a session. Raises TooManyStreams, RuntimeRefused, and OSError when it cannot be recorded."""
        if len(self._viewers) >= MAX_VIEWERS:
            raise TooManyStreams(f"{MAX_VIEWERS} people look at this screen already")
        made = DisplaySession(self)
        self._viewers.append(made)  # before the first await, so that concurrent calls cannot exceed the maximum
        try:
            await self._connect(lambda: made)
            made.recorder = options.record() if options.record is not None else None
        except BaseException as error:
            self.left(made)
            made.abort()
            if isinstance(error, OSError) and made.recorder is None and not made.connected:
                raise RuntimeRefused(f"the machine's screen cannot be reached: {error}") from error
            raise
        if options.keyboard and self._order.ask(made, options.takeover):
            self._mark_keyboard()
        return made

    def may_type(self, viewer: DisplaySession) -> bool:
        return self._order.writer is viewer

    def left(self, viewer: DisplaySession) -> None:
        """Remove a viewer; its keyboard goes to the next one."""
        if viewer in self._viewers:
            self._viewers.remove(viewer)
            if self._order.give_up(viewer):
                self._mark_keyboard()

    def close(self) -> None:
        """End all sessions: the machine has exited."""
        for each in list(self._viewers):
            each.close()

    def _mark_keyboard(self) -> None:
        for each in list(self._viewers):
            each.mark("has the keyboard" if self.may_type(each) else "has not the keyboard")


class DisplaySession(Paced):
    """Implements `CommandStream`: one viewer's connection to QEMU."""

    def __init__(self, display: Display) -> None:
        super().__init__(piece=64 * 1024)  # pictures are large, and forwarded unchanged
        self.transport = cast("asyncio.Transport", None)
        self.recorder: SessionRecorder | None = None
        self._display = display
        self._messages = ViewerMessages()
        self._client: StreamClient | None = None
        self._begun = False
        self._early = b""  # received before `begin`: QEMU's protocol version
        self._over = False

    @property
    def connected(self) -> bool:
        return self.transport is not None  # pyright: ignore[reportUnnecessaryComparison] - before it is made

    # ---- QEMU's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.hold(True)  # until `begin`; uvloop starts reading after this call nevertheless

    def received(self, piece: bytes) -> None:
        if not self._begun:
            self._early += piece
        elif self._client is not None and not self._over:
            self._client.output(Channel.STDOUT, piece)
            self._client.flush()

    def pause_writing(self) -> None:
        if self._client is not None:
            self._client.hold(True)

    def resume_writing(self) -> None:
        if self._client is not None:
            self._client.hold(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    # ---- the viewer's side

    def attach(self, client: StreamClient) -> None:
        self._client = client

    def begin(self) -> None:
        if self.transport.is_closing():
            self._end()
            return
        early, self._begun, self._early = self._early, True, b""
        if early:
            self.received(early)
        self.hold(False)

    def write(self, data: bytes) -> None:
        if self._over:
            return
        try:
            passed = self._messages.pass_on(data, self._display.may_type(self))
        except NotRfb as error:
            self._end(f"this is not what a viewer sends: {error}")
            return
        if passed and not self.transport.is_closing():
            self.transport.write(passed)

    def finish_input(self) -> None:
        """Ignored: a viewer that sends no more may still watch."""

    def resize(self, size: TerminalSize) -> None:
        """Ignored: the guest determines the size of the screen."""

    def read(self, wanted: bool) -> None:
        self.hold(not wanted)

    def close(self) -> None:
        self._end()

    def abort(self) -> None:
        self._end()

    def mark(self, text: str) -> None:
        """Add a mark to the recording, if there is one."""
        if self.recorder is not None:
            try:
                self.recorder.mark(text)
            except OSError as error:
                self._end(f"the session cannot be recorded: {error.strerror or error}")

    def _end(self, why: str = "") -> None:
        """End the session once, when the first side disconnects."""
        if self._over:
            return
        self._over = True
        self._display.left(self)
        if self.connected:
            self.transport.abort()
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            recorder.close()
        if self._client is not None:
            self._client.output(Channel.ERROR, failure(why) if why else exited(0))
            self._client.flush()
            self._client.end()
