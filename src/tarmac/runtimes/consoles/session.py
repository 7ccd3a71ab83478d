"""One session at a console: its place in what the guest writes, and what it is told and recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tarmac.runtimes.consoles.leaving import LeavingKeys
from tarmac.runtimes.consoles.notices import Notice, encoded, in_words
from tarmac.runtimes.interface import ConsoleOptions, SessionRecorder, StreamClient, TerminalSize
from tarmac.wire.channels import Channel, exited, failure

if TYPE_CHECKING:
    from tarmac.runtimes.consoles.console import Attempt, Console

TAIL = 4096
_PIECE = 64 * 1024
_AT_A_TIME = 8  # pieces: nobody is served so much at once that the others wait


class ConsoleSession:
    """Implements `CommandStream`."""

    def __init__(self, console: Console, options: ConsoleOptions, recorder: SessionRecorder | None) -> None:
        self.user = options.user
        self._console = console
        self._options = options
        self._recorder = recorder
        self._client: StreamClient | None = None
        self._leaving = LeavingKeys()
        self._attempt: Attempt | None = None
        self._offset = 0
        self._begun = False
        self._over = False
        self._full = 0  # reasons not to send: the client does not take what it was sent
        self._untold = False  # notices were left out meanwhile

    # ---- the client's side

    def attach(self, client: StreamClient) -> None:
        self._client = client

    def begin(self) -> None:
        self._begun = True
        self._attempt = self._console.attempt
        gap = self._find_place()
        notice: Notice = {
            "session": self._options.session,
            "attempt": self._attempt.number if self._attempt is not None else None,
            "offset": self._offset,
            "recorded": self._options.recorded,
            **self._console.keyboard_of(self),
        }
        self.tell(notice)
        if gap:
            self.tell({"gap": gap, "offset": self._offset})
        self.serve()

    def write(self, data: bytes) -> None:
        keys = self._leaving.pass_on(data)
        if keys:
            self._console.press(self, keys)
        if self._leaving.left:
            self.end()

    def finish_input(self) -> None:
        """Nothing more will be typed: the keyboard is for the next."""
        self._console.give_up(self)

    def resize(self, size: TerminalSize) -> None:
        if self._recorder is not None:
            self._record(lambda recorder: recorder.resized(size))

    def read(self, wanted: bool) -> None:
        self._full += -1 if wanted else 1
        self.serve()

    def close(self) -> None:
        self._leave()

    def abort(self) -> None:
        self._leave()

    # ---- the console's side

    def hold(self, held: bool) -> None:
        """The guest does not take what is typed, or takes it again."""
        if self._client is not None:
            self._client.hold(held)

    def tell(self, notice: Notice) -> None:
        """Something beside the output. What was to be said before the session began is in its first notice."""
        if self._client is None or not self._begun or self._over:
            return
        if self._recorder is not None and "keyboard" in notice:
            self._record(lambda recorder: recorder.mark(_keyboard_mark(notice)))
        # Others come and go as often as they like: who does not take what they are sent is told how things stand later.
        if self._full or self._over:
            self._untold = True
            return
        if not self._options.attached:
            self._client.output(Channel.STDERR, encoded(notice))
        elif words := in_words(notice):
            self._client.output(Channel.STDOUT, words)
        self._client.flush()

    def serve(self) -> None:
        """Hand on what is new, if the client takes it."""
        if not self._begun or self._full or self._over:
            return
        if self._untold:
            self._untold = False
            self.tell(self._console.keyboard_of(self))
        if self._attempt is None:
            self._go_on()
        elif self._send_all(self._attempt) and self._attempt is not self._console.attempt:
            self._attempt = None
            if self._options.attached:
                self.end()
            else:
                self._go_on()

    def end(self, why: str = "") -> None:
        """It is over, and the client is told."""
        if self._leave() and self._client is not None:
            self._client.output(Channel.ERROR, failure(why) if why else exited(0))
            self._client.flush()
            self._client.end()

    # ---- inside

    def _find_place(self) -> int:
        """Where to read from; how many bytes are missing before that."""
        if self._attempt is None:
            return 0
        source, since = self._attempt.source, self._options.since
        end, kept_from = source.end, source.kept_from
        if since is None:
            self._offset = _beginning_of_a_line(source.read(max(kept_from, end - TAIL), TAIL), end)
            return 0
        wanted = since[1] if since[0] == self._attempt.number else 0
        self._offset = min(max(wanted, kept_from), end)
        return max(0, kept_from - wanted)

    def _send_all(self, attempt: Attempt) -> bool:
        """As much as the client takes; whether that is all there is."""
        for _ in range(_AT_A_TIME):
            if self._full or self._over:
                return False
            if not self._send(attempt):
                return True
        return False

    def _send(self, attempt: Attempt) -> bool:
        """What is new of it; whether there was anything."""
        client = self._client
        if client is None:
            return False
        data = b""
        with suppress(OSError):  # it has been let go of: nothing more can be had
            kept_from = attempt.source.kept_from
            if kept_from > self._offset:
                gap, self._offset = kept_from - self._offset, kept_from
                self.tell({"gap": gap, "offset": kept_from})
            data = attempt.source.read(self._offset, _PIECE)
        if not data or self._over:
            return False
        self._offset += len(data)
        self._record(lambda recorder: recorder.output(data))
        if not self._over:
            client.output(Channel.STDOUT, data)
            client.flush()
        return True

    def _go_on(self) -> None:
        """In the next process of the machine, when there is one."""
        self._attempt = self._console.attempt
        if self._attempt is not None:
            self._offset = 0
            self.tell({"attempt": self._attempt.number, "offset": 0})
            self.serve()

    def _record(self, write: Callable[[SessionRecorder], None]) -> None:
        """Nobody goes on unrecorded because a disk is full."""
        if self._recorder is None:
            return
        try:
            write(self._recorder)
        except OSError as error:
            self.end(f"the session cannot be recorded: {error.strerror or error}")

    def _leave(self) -> bool:
        """Once; whether it was there until now."""
        if self._over:
            return False
        self._over = True
        self._console.left(self)
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()
        return True


def _beginning_of_a_line(tail: bytes, end: int) -> int:
    """The offset of the first line that begins in the last bytes before `end`."""
    if len(tail) == end:
        return 0
    return end - len(tail) + tail.find(b"\n") + 1


def _keyboard_mark(notice: Notice) -> str:
    if notice["keyboard"]:
        return "has the keyboard"
    writer = notice.get("writer")
    return f"{writer['user']} has the keyboard" if writer is not None else "nobody has the keyboard"
