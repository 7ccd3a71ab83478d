"""Terminal sizes as clients send them: concatenated JSON objects, split anywhere.

An object is limited to `MAX_BYTES` bytes: an unterminated string would otherwise grow without bound here, and then in
the runtime. Only two numbers are read of it. Malformed objects are skipped, since the next one may be valid.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tarmac.runtimes.interface import TerminalSize
from tarmac.wire.violations import ProtocolViolation

MAX_BYTES = 256


class _Size(msgspec.Struct, rename="pascal"):
    width: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    height: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


_decode = msgspec.json.Decoder(_Size).decode


class TerminalSizes:
    """Incremental parser of terminal sizes."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = b""

    def read(self, data: bytes) -> TerminalSize | None:
        """Return the last size completed by these bytes; earlier ones are obsolete. Raises ProtocolViolation."""
        *whole, self._begun = (self._begun + data).split(b"}")
        if len(self._begun) > MAX_BYTES:
            raise ProtocolViolation(f"the size of a terminal takes more than {MAX_BYTES} bytes")
        for each in reversed(whole):
            if len(each) <= MAX_BYTES and (size := _size(each + b"}")) is not None:
                return TerminalSize(size.width, size.height)
        return None


def _size(text: bytes) -> _Size | None:
    try:
        return _decode(text)
    except msgspec.MsgspecError:
        return None
