"""Sizes of a terminal, as clients send them: JSON objects one behind the other, cut anywhere.

An object has `LONGEST` bytes to end in: a string without an end would otherwise grow here without one, and after us in
the runtime. What is read of it are two numbers. One that cannot be read is left out, since the next may be right.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tarmac.runtimes.interface import TerminalSize
from tarmac.wire.violations import ProtocolViolation

LONGEST = 256


class _Size(msgspec.Struct, rename="pascal"):
    width: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    height: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


_decode = msgspec.json.Decoder(_Size).decode


class TerminalSizes:
    """Reads them."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = b""

    def read(self, data: bytes) -> TerminalSize | None:
        """The last size that these bytes complete: those before it have been overtaken. Raises Violation."""
        *whole, self._begun = (self._begun + data).split(b"}")
        if len(self._begun) > LONGEST:
            raise ProtocolViolation(f"the size of a terminal takes more than {LONGEST} bytes")
        for each in reversed(whole):
            if len(each) <= LONGEST and (size := _size(each + b"}")) is not None:
                return TerminalSize(size.width, size.height)
        return None


def _size(text: bytes) -> _Size | None:
    try:
        return _decode(text)
    except msgspec.MsgspecError:
        return None
