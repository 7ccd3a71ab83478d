"""The console of one machine: all sessions see the same output, one has the keyboard.

The guest's output is in a file that only grows, and each session has its own offset in it. So a slow session delays
neither the guest nor other sessions, and nothing is buffered for it here. When it accepts data again it continues at
its offset; bytes discarded meanwhile are reported to it as a gap.

A machine that restarts has a new process with a new file, the next *attempt*. Sessions read the old file to its end and
continue in the new one, except those of clients that support attach only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.consoles.attempt import Attempt, SerialSource
from tarmac.runtimes.consoles.keyboard import ConnectKeys, Keyboard
from tarmac.runtimes.consoles.keyboardorder import KeyboardOrder
from tarmac.runtimes.consoles.notices import Notice, writer_of
from tarmac.runtimes.consoles.session import ConsoleSession
from tarmac.runtimes.interface import ConsoleOptions, TooManyStreams

MAX_SESSIONS = 16
ECHO = 0.005  # seconds that a guest may take to echo a key; a later echo waits for the timer


class MachineConsole:
    """The console of one machine. `changed` is called when the first session opens, and when the last one closes."""

    def __init__(self, clock: Clock, tasks: Tasks, changed: Callable[[], None] = lambda: None) -> None:
        self.clock = clock
        self.attempt: Attempt | None = None  # None while no process runs
        self._tasks = tasks
        self._changed = changed
        self._sessions: list[ConsoleSession] = []
        self._order: KeyboardOrder[ConsoleSession] = KeyboardOrder()
        self._keyboard: Keyboard | None = None
        self._since = 0.0  # time at which the writer got the keyboard
        self._soon = False  # a check for echoed output is scheduled

    def __len__(self) -> int:
        return len(self._sessions)

    # ---- for drivers

    def begin(self, number: int, source: SerialSource, connect: ConnectKeys) -> None:
        """Attach the console to a process that was just started or adopted."""
        self.attempt = Attempt(number, source, connect)
        self._hand_out_keyboard()
        self.serve()

    def over(self) -> None:
        """Detach the console from an exited process; its output can still be read."""
        self.attempt = None
        self._hand_out_keyboard()
        self.serve()

    def close(self) -> None:
        """End all sessions: the machine is removed."""
        self.attempt = None
        for each in list(self._sessions):
            each.end("the machine is gone")

    def serve(self) -> None:
        """Deliver new output to all sessions."""
        for each in list(self._sessions):
            each.serve()

    # ---- sessions

    def open(self, options: ConsoleOptions) -> ConsoleSession:
        """Open a session. Raises TooManyStreams, and OSError when it cannot be recorded."""
        if len(self._sessions) >= MAX_SESSIONS:
            raise TooManyStreams(f"{MAX_SESSIONS} people are at this console already")
        # After all checks, because a recording cannot be undone.
        made = ConsoleSession(self, options, options.record() if options.record is not None else None)
        self._sessions.append(made)
        self._notify({"joined": options.user, "watchers": len(self._sessions)}, made)
        if options.keyboard and self._order.ask(made, options.takeover):
            self._writer_changed(made)
        if len(self._sessions) == 1:
            self._changed()
        return made

    def left(self, session: ConsoleSession) -> None:
        """Remove a session that has ended."""
        if session not in self._sessions:
            return
        self._sessions.remove(session)
        self.give_up(session)
        self._notify({"left": session.user, "watchers": len(self._sessions)})
        if not self._sessions:
            self._changed()

    def give_up(self, session: ConsoleSession) -> None:
        """Release the keyboard of a session, or its place in the queue."""
        if self._order.give_up(session):
            self._writer_changed()

    def press(self, session: ConsoleSession, keys: bytes) -> None:
        """Send keys of a session; dropped unless it has the keyboard."""
        if self._keyboard is not None and self._order.writer is session:
            self._keyboard.press(keys)
            self._poll_soon()

    def keyboard_of(self, session: ConsoleSession) -> Notice:
        """Return the notice about the keyboard's owner for one session."""
        writer = self._order.writer
        return {
            "keyboard": writer is session,
            "writer": writer_of(writer.user if writer is not None else None, self._since),
        }

    def _writer_changed(self, newcomer: ConsoleSession | None = None) -> None:
        self._since = self.clock.now()
        self._hand_out_keyboard()
        for each in self._sessions:
            if each is not newcomer:  # its first notice includes this
                each.notify(self.keyboard_of(each))

    def _hand_out_keyboard(self) -> None:
        """Open a new connection for each writer and process: keys of one never reach the other."""
        if self._keyboard is not None:
            self._keyboard.close()
            self._keyboard = None
        if self._order.writer is not None and self.attempt is not None:
            self._keyboard = Keyboard(self.attempt.connect, self._order.writer.hold, self.clock, self._tasks)

    def _poll_soon(self) -> None:
        """Check for echoed output after 5 ms: a user who types should not wait for the timer if the guest is fast."""
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_later(ECHO, self._poll)

    def _poll(self) -> None:
        self._soon = False
        self.serve()

    def _notify(self, notice: Notice, newcomer: ConsoleSession | None = None) -> None:
        for each in self._sessions:
            if each is not newcomer:
                each.notify(notice)
