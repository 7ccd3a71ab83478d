"""One session recording: a file in asciicast 2 format, a header and then one event per line.

    {"version": 2, "width": 80, "height": 24, "timestamp": …, "title": "default/web-0", "tarmac": {"user": …, …}}
    [1.25, "o", "login: "]      output of the guest
    [2.5, "r", "120x40"]        the size of the terminal
    [3.0, "m", "end"]           keyboards taken and lost, and the end

Input is never recorded: it appears where the guest echoes it, so passwords do not. Each event is written to the kernel
at once, so a killed agent loses none.
"""

from __future__ import annotations

import codecs
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tarmac.base.clock import Clock
from tarmac.runtimes.interface import TerminalSize

WIDTH, HEIGHT = 80, 24
SUFFIX = ".cast"
MAX_HEADER = 16 * 1024

_encode = msgspec.json.Encoder().encode


class CastFacts(msgspec.Struct, rename="camel"):
    """User and session of a recording."""

    user: str = ""
    session: str = ""
    instance_uid: str = ""
    keyboard: bool = False
    kind: str = ""


class CastHeader(msgspec.Struct):
    """The fields of the first line that Tarmac reads."""

    timestamp: float
    title: str = ""
    tarmac: CastFacts = msgspec.field(default_factory=CastFacts)


_decode_header = msgspec.json.Decoder(CastHeader).decode


def read_header(line: bytes) -> CastHeader | None:
    """Parse the first line; None if it is not a recording of Tarmac."""
    try:
        return _decode_header(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class CastWriter:
    """Implements `SessionRecorder`. All methods except `close` raise OSError, also at the size limit."""

    def __init__(self, path: Path, title: str, facts: CastFacts, clock: Clock, largest: int) -> None:
        # The mode is that of the last folder only, missing parents get the default one; the file itself is private.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._clock = clock
        self._began = clock.monotonic()
        self._max_size = largest
        self._text = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be split over two writes
        # Never overwrite an existing file or follow a link.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.written = 0
        header = {"version": 2, "width": WIDTH, "height": HEIGHT, "timestamp": int(clock.now()), "title": title}
        self._write({**header, "tarmac": msgspec.to_builtins(facts)})

    def output(self, data: bytes) -> None:
        if text := self._text.decode(data):
            self._event("o", text)

    def resized(self, size: TerminalSize) -> None:
        self._event("r", f"{size.width}x{size.height}")

    def mark(self, text: str) -> None:
        self._event("m", text)

    def close(self) -> None:
        with suppress(OSError):  # the session has ended anyway
            self._event("m", "end")
        os.close(self._file)

    def _event(self, code: str, text: str) -> None:
        self._write([round(self._clock.monotonic() - self._began, 6), code, text])

    def _write(self, line: Any) -> None:
        data = _encode(line) + b"\n"
        if self.written + len(data) > self._max_size:
            raise OSError(f"the recording has reached {self._max_size} bytes; open another session")
        # The kernel writes a part only if the disk is full: the recording ends with half a line, and the session with
        # it.
        if os.write(self._file, data) < len(data):
            raise OSError("no room for the recording")
        self.written += len(data)
