"""What the asking side of a connection hears of its streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Answered(NamedTuple):
    """Headers of an answer; those after its data are its trailers."""

    stream: int
    headers: Mapping[str, str]


class Received(NamedTuple):
    """Bytes of an answer."""

    stream: int
    data: bytes


class Ended(NamedTuple):
    """The answer is complete."""

    stream: int


class Cut(NamedTuple):
    """The answer will not be completed. `code` is the peer's reason."""

    stream: int
    code: int


Event = Answered | Received | Ended | Cut
