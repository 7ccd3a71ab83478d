"""Messages of the QEMU Machine Protocol: one JSON object per line.

QEMU sends a greeting, then responses and events. A guest can cause events, in any number, so lines have a maximum
length and events are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

MAX_LINE = 1 << 20

Command = Literal[
    "qmp_capabilities",
    "query-status",
    "query-name",
    "query-cpus-fast",
    "query-hotpluggable-cpus",
    "query-blockstats",
    "query-balloon",
    "system_powerdown",
    "system_reset",
    "stop",
    "cont",
    "quit",
    "add-fd",
    "remove-fd",
    "block_resize",
    "device_add",
]
"""All commands in use. QEMU has many more, some of which would read files of the host into a guest."""


class MalformedMessage(Exception):
    """A message violates the protocol; the rest of the connection cannot be trusted."""


class Greeting(msgspec.Struct, frozen=True):
    """The first message of the server."""

    version: tuple[int, int, int]


class CommandResult(msgspec.Struct, frozen=True):
    """The result of a command."""

    id: int
    value: Any


class CommandFailure(msgspec.Struct, frozen=True):
    """The error of a command."""

    id: int | None
    kind: str
    message: str


class QmpEvent(msgspec.Struct, frozen=True):
    """An asynchronous event."""

    name: str
    data: dict[str, Any]


Message = Greeting | CommandResult | CommandFailure | QmpEvent


class _Number(msgspec.Struct):
    major: int
    minor: int
    micro: int


class _Version(msgspec.Struct):
    qemu: _Number


class _Hello(msgspec.Struct):
    version: _Version


class _Error(msgspec.Struct):
    kind: str = msgspec.field(name="class", default="")
    desc: str = ""


class _Line(msgspec.Struct):
    """Any message; the fields present determine its kind."""

    hello: _Hello | None = msgspec.field(name="QMP", default=None)
    value: Any = msgspec.field(name="return", default=msgspec.UNSET)
    error: _Error | None = None
    event: str = ""
    data: dict[str, Any] = {}
    id: int | None = None


_decode = msgspec.json.Decoder(_Line).decode
_encode = msgspec.json.Encoder().encode


def encode_command(name: Command, number: int, arguments: dict[str, Any] | None = None) -> bytes:
    """Encode a command as a line. Its response has the same number."""
    body: dict[str, Any] = {"execute": name, "id": number}
    if arguments:
        body["arguments"] = arguments
    return _encode(body) + b"\r\n"


def decode_message(line: bytes) -> Message:
    """Decode one line. Raises MalformedMessage."""
    try:
        read = _decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise MalformedMessage(f"not a message of a monitor: {error}") from None
    if read.hello is not None:
        number = read.hello.version.qemu
        return Greeting((number.major, number.minor, number.micro))
    if read.event:
        return QmpEvent(read.event, read.data)
    if read.error is not None:
        return CommandFailure(read.id, read.error.kind, read.error.desc)
    if read.value is not msgspec.UNSET and read.id is not None:
        return CommandResult(read.id, read.value)
    raise MalformedMessage("neither greeting nor answer nor event")


class QmpLineSplitter:
    """Splits received data into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete now. Raises MalformedMessage for a line longer than 1 MiB."""
        begin = len(self._rest)
        self._rest += data
        taken = 0
        # The rest of the last call holds no newline: start the search behind it, so that a long line is scanned once.
        while (end := self._rest.find(b"\n", max(begin, taken))) >= 0:
            line = bytes(self._rest[taken:end])
            taken = end + 1
            if line.strip():
                yield line
        del self._rest[:taken]
        if len(self._rest) > MAX_LINE:
            raise MalformedMessage(f"a line of more than {MAX_LINE} bytes")
