"""Events of the streams of a client connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Answered(NamedTuple):
    """Headers of a response; those after its data are its trailers."""

    stream: int
    headers: Mapping[str, str]


class Received(NamedTuple):
    """Bytes of a response."""

    stream: int
    data: bytes


class Ended(NamedTuple):
    """The response is complete."""

    stream: int


class Cut(NamedTuple):
    """The response was cut off. `code` is the peer's reason."""

    stream: int
    code: int


Event = Answered | Received | Ended | Cut
