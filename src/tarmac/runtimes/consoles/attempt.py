"""One process of a machine, as its console uses it: the guest's output, and a way to send keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tarmac.runtimes.consoles.keyboard import ConnectKeys


class SerialSource(Protocol):
    """A guest's output, by offset. Every access may raise OSError once it was released."""

    @property
    def end(self) -> int:
        """Number of bytes written so far."""
        ...

    @property
    def kept_from(self) -> int:
        """Offset of the first byte that can still be read."""
        ...

    def read(self, offset: int, most: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process of the machine."""

    number: int
    source: SerialSource
    connect: ConnectKeys
