"""Events of the streams of a client connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ResponseReceived(NamedTuple):
    """Headers of a response; those after its data are its trailers."""

    stream: int
    headers: Mapping[str, str]


class DataReceived(NamedTuple):
    """Bytes of a response."""

    stream: int
    data: bytes


class StreamEnded(NamedTuple):
    """The response is complete."""

    stream: int


class StreamReset(NamedTuple):
    """The response was cut off. `code` is the peer's reason."""

    stream: int
    code: int


Event = ResponseReceived | DataReceived | StreamEnded | StreamReset
