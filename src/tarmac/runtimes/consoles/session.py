"""One console session: its offset in the guest's output, its notices and its recording."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from tarmac.runtimes.consoles.attempt import Attempt
from tarmac.runtimes.consoles.notices import Notice, encoded, in_words
from tarmac.runtimes.interface import ConsoleOptions, SessionRecorder, StreamClient, TerminalSize
from tarmac.wire.channels import Channel, exited, failure

TAIL = 4096
_CHUNK_SIZE = 64 * 1024
_AT_A_TIME = 8  # chunks per round, so that one session does not delay the rest

_ENTER = frozenset(b"\r\n")
_TILDE = ord("~")
_DOT = ord(".")


# `Enter ~ .` ends a session, as in ssh: the only way to leave for clients that send every key.
#
# `~` counts only at the beginning of a line, that is after Enter and at the start. It is held back until the next key:
# `~~` sends one `~`, and before any other key it is sent as typed.


class EscapeSequence:
    """The state of the escape sequence in typed keys."""

    __slots__ = ("_begins", "_held", "left")

    def __init__(self) -> None:
        self._begins = True  # the next key begins a line
        self._held = False  # a `~` was held back
        self.left = False
        """The user has asked to leave."""

    def pass_on(self, keys: bytes) -> bytes:
        """Return the keys to send to the guest."""
        # Long input is pasted: it needs a scan only if it contains `~`, or if one was held back.
        if not self._held and _TILDE not in keys:
            self._begins = keys[-1] in _ENTER if keys else self._begins
            return keys
        out = bytearray()
        for key in keys:
            if self._held:
                self._held = False
                if key == _DOT:
                    self.left = True
                    break
                if key != _TILDE:
                    out.append(_TILDE)
            elif self._begins and key == _TILDE:
                self._held = True
                self._begins = False
                continue
            out.append(key)
            self._begins = key in _ENTER
        return bytes(out)


class SharedConsole(Protocol):
    """The console that a session belongs to."""

    attempt: Attempt | None
    """The machine's present process; None while none runs."""

    def keyboard_of(self, session: ConsoleSession) -> Notice:
        """Return the notice about the keyboard's owner for one session."""
        ...

    def press(self, session: ConsoleSession, keys: bytes) -> None:
        """Send keys of a session; dropped unless it has the keyboard."""
        ...

    def give_up(self, session: ConsoleSession) -> None:
        """Release the keyboard of a session, or its place in the queue."""
        ...

    def left(self, session: ConsoleSession) -> None:
        """Remove a session that has ended."""
        ...


class ConsoleSession:
    """Implements `CommandStream`."""

    def __init__(self, console: SharedConsole, options: ConsoleOptions, recorder: SessionRecorder | None) -> None:
        self.user = options.user
        self._console = console
        self._options = options
        self._recorder = recorder
        self._client: StreamClient | None = None
        self._leaving = EscapeSequence()
        self._attempt: Attempt | None = None
        self._offset = 0
        self._begun = False
        self._over = False
        self._full = 0  # reasons not to send: the client does not accept data
        self._untold = False  # notices were dropped meanwhile

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
        self.notify(notice)
        if gap:
            self.notify({"gap": gap, "offset": self._offset})
        self.serve()

    def write(self, data: bytes) -> None:
        keys = self._leaving.pass_on(data)
        if keys:
            self._console.press(self, keys)
        if self._leaving.left:
            self.end()

    def finish_input(self) -> None:
        """Release the keyboard: the client will send no more keys."""
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
        """Pause or resume the client's input: the guest does not read it, or does again."""
        if self._client is not None:
            self._client.hold(held)

    def notify(self, notice: Notice) -> None:
        """Send a notice. Dropped before `begin`, since the session's first notice includes that state."""
        if self._client is None or not self._begun or self._over:
            return
        if self._recorder is not None and "keyboard" in notice:
            self._record(lambda recorder: recorder.mark(_keyboard_mark(notice)))
        # Other sessions may come and go at any rate: a slow client gets the current state later, not every notice.
        if self._full or self._over:
            self._untold = True
            return
        if not self._options.attached:
            self._client.output(Channel.STDERR, encoded(notice))
        elif words := in_words(notice):
            self._client.output(Channel.STDOUT, words)
        self._client.flush()

    def serve(self) -> None:
        """Send new output, if the client accepts it."""
        if not self._begun or self._full or self._over:
            return
        if self._untold:
            self._untold = False
            self.notify(self._console.keyboard_of(self))
        if self._attempt is None:
            self._go_on()
        elif self._send_all(self._attempt) and self._attempt is not self._console.attempt:
            self._attempt = None
            if self._options.attached:
                self.end()
            else:
                self._go_on()

    def end(self, why: str = "") -> None:
        """End the session and tell the client."""
        if self._leave() and self._client is not None:
            self._client.output(Channel.ERROR, failure(why) if why else exited(0))
            self._client.flush()
            self._client.end()

    # ---- inside

    def _find_place(self) -> int:
        """Set the offset to read from; return the number of bytes missing before it."""
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
        """Send as much as the client accepts; tell if that is all there is."""
        for _ in range(_AT_A_TIME):
            if self._full or self._over:
                return False
            if not self._send(attempt):
                return True
        return False

    def _send(self, attempt: Attempt) -> bool:
        """Send one chunk of new output; tell if there was any."""
        client = self._client
        if client is None:
            return False
        data = b""
        with suppress(OSError):  # the source was released: there is no more output
            kept_from = attempt.source.kept_from
            if kept_from > self._offset:
                gap, self._offset = kept_from - self._offset, kept_from
                self.notify({"gap": gap, "offset": kept_from})
            data = attempt.source.read(self._offset, _CHUNK_SIZE)
        if not data or self._over:
            return False
        self._offset += len(data)
        self._record(lambda recorder: recorder.output(data))
        if not self._over:
            client.output(Channel.STDOUT, data)
            client.flush()
        return True

    def _go_on(self) -> None:
        """Continue with the machine's next process, when there is one."""
        self._attempt = self._console.attempt
        if self._attempt is not None:
            self._offset = 0
            self.notify({"attempt": self._attempt.number, "offset": 0})
            self.serve()

    def _record(self, write: Callable[[SessionRecorder], None]) -> None:
        """Write to the recording. On an error end the session: it must not continue unrecorded."""
        if self._recorder is None:
            return
        try:
            write(self._recorder)
        except OSError as error:
            self.end(f"the session cannot be recorded: {error.strerror or error}")

    def _leave(self) -> bool:
        """Close the session, once; tell if it was open."""
        if self._over:
            return False
        self._over = True
        self._console.left(self)
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()
        return True


def _beginning_of_a_line(tail: bytes, end: int) -> int:
    """Return the offset of the first line that begins in the last bytes before `end`."""
    if len(tail) == end:
        return 0
    return end - len(tail) + tail.find(b"\n") + 1


def _keyboard_mark(notice: Notice) -> str:
    if notice["keyboard"]:
        return "has the keyboard"
    writer = notice.get("writer")
    return f"{writer['user']} has the keyboard" if writer is not None else "nobody has the keyboard"
