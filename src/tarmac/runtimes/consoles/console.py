"""The console of one machine: everybody sees the same bytes, one has the keyboard.

What the guest writes is in a file that only grows, and each session has its own place in it. So a session that does not
take what it is sent costs nobody anything: neither the guest nor the others wait, and nothing is kept for it here. When
it comes back it reads on, and is told how much had to be left out if that was too long.

A machine that restarts has a new process with a new file, the next *attempt*. Sessions read the old file to its end and
go on in the new one, except those that know attach only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.consoles.keyboard import ConnectKeys, Keyboard
from tarmac.runtimes.consoles.keyboardorder import KeyboardOrder
from tarmac.runtimes.consoles.notices import Notice, writer_of
from tarmac.runtimes.consoles.session import ConsoleSession
from tarmac.runtimes.interface import ConsoleOptions, TooManyStreams

MOST = 16
ECHO = 0.005  # seconds that a guest may take to echo a key before the timer has to see it


class SerialSource(Protocol):
    """What a guest has written, by offset. Each may raise OSError when it has been let go of."""

    @property
    def end(self) -> int:
        """How many bytes there are."""
        ...

    @property
    def kept_from(self) -> int:
        """The first that can still be read."""
        ...

    def read(self, offset: int, most: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process of the machine."""

    number: int
    source: SerialSource
    connect: ConnectKeys


class Console:
    """Of one machine. `changed` is told when the first session comes, and when the last one goes."""

    def __init__(self, clock: Clock, tasks: Tasks, changed: Callable[[], None] = lambda: None) -> None:
        self.clock = clock
        self.attempt: Attempt | None = None  # None between two processes
        self._tasks = tasks
        self._changed = changed
        self._sessions: list[ConsoleSession] = []
        self._order: KeyboardOrder[ConsoleSession] = KeyboardOrder()
        self._keyboard: Keyboard | None = None
        self._since = 0.0  # when the writer got the keyboard
        self._soon = False  # there will be a look at what the guest echoes

    def __len__(self) -> int:
        return len(self._sessions)

    # ---- for whoever runs the machine

    def begin(self, number: int, source: SerialSource, connect: ConnectKeys) -> None:
        """A process of the machine runs, from now on or since before."""
        self.attempt = Attempt(number, source, connect)
        self._hand_out_keyboard()
        self.serve()

    def over(self) -> None:
        """The process has ended; what it has written can still be read."""
        self.attempt = None
        self._hand_out_keyboard()
        self.serve()

    def close(self) -> None:
        """The machine is gone, and so is everybody at it."""
        self.attempt = None
        for each in list(self._sessions):
            each.end("the machine is gone")

    def serve(self) -> None:
        """Hand out what is new."""
        for each in list(self._sessions):
            each.serve()

    # ---- sessions

    def open(self, options: ConsoleOptions) -> ConsoleSession:
        """One more. Raises TooManyStreams, and OSError when it cannot be recorded."""
        if len(self._sessions) >= MOST:
            raise TooManyStreams(f"{MOST} people are at this console already")
        # Last, because a recording is there to stay.
        made = ConsoleSession(self, options, options.record() if options.record is not None else None)
        self._sessions.append(made)
        self._tell({"joined": options.user, "watchers": len(self._sessions)}, made)
        if options.keyboard and self._order.ask(made, options.takeover):
            self._writer_changed(made)
        if len(self._sessions) == 1:
            self._changed()
        return made

    def left(self, session: ConsoleSession) -> None:
        """One has gone."""
        if session not in self._sessions:
            return
        self._sessions.remove(session)
        self.give_up(session)
        self._tell({"left": session.user, "watchers": len(self._sessions)})
        if not self._sessions:
            self._changed()

    def give_up(self, session: ConsoleSession) -> None:
        """One does not want the keyboard any more."""
        if self._order.give_up(session):
            self._writer_changed()

    def press(self, session: ConsoleSession, keys: bytes) -> None:
        """Keys of somebody who has, or has not, the keyboard."""
        if self._keyboard is not None and self._order.writer is session:
            self._keyboard.press(keys)
            self._look_soon()

    def keyboard_of(self, session: ConsoleSession) -> Notice:
        """Who has it, as told to one of them."""
        writer = self._order.writer
        return {
            "keyboard": writer is session,
            "writer": writer_of(writer.user if writer is not None else None, self._since),
        }

    def _writer_changed(self, newcomer: ConsoleSession | None = None) -> None:
        self._since = self.clock.now()
        self._hand_out_keyboard()
        for each in self._sessions:
            if each is not newcomer:  # whose first notice says it
                each.tell(self.keyboard_of(each))

    def _hand_out_keyboard(self) -> None:
        """A connection of its own for each writer and each process: nothing typed for one ever reaches another."""
        if self._keyboard is not None:
            self._keyboard.close()
            self._keyboard = None
        if self._order.writer is not None and self.attempt is not None:
            self._keyboard = Keyboard(self.attempt.connect, self._order.writer.hold, self.clock, self._tasks)

    def _look_soon(self) -> None:
        """Somebody waits to see what they have typed: not until the next round of the timer, if the guest is quick."""
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_later(ECHO, self._look)

    def _look(self) -> None:
        self._soon = False
        self.serve()

    def _tell(self, notice: Notice, newcomer: ConsoleSession | None = None) -> None:
        for each in self._sessions:
            if each is not newcomer:
                each.tell(notice)
