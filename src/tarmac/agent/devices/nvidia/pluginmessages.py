"""The plugin's few messages of the device plugin API, encoded by hand: the protobuf library would double its memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tarmac.wire.protobuf import varint

_TEXT: Final = 2  # the wire type of texts and messages
_MAX_SHIFT: Final = 28
OPTIONS: Final = b""
"""`DevicePluginOptions`: none of them."""


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    """The answer for one container. Mounts and devices are pairs of a host path and a container path."""

    envs: Mapping[str, str]
    mounts: Sequence[tuple[str, str]]
    devices: Sequence[tuple[str, str]]


def registration(version: str, endpoint: str, resource: str) -> bytes:
    """Return a `RegisterRequest`."""
    return _text(1, version) + _text(2, endpoint) + _text(3, resource)


def device_list(healthy: Mapping[str, bool]) -> bytes:
    """Return a `ListAndWatchResponse`: devices by id."""
    devices = (_text(1, name) + _text(2, "Healthy" if well else "Unhealthy") for name, well in healthy.items())
    return b"".join(_field(1, each) for each in devices)


def allocate_response(containers: Iterable[ContainerSettings]) -> bytes:
    """Return an `AllocateResponse`."""
    return b"".join(_field(1, _container(each)) for each in containers)


def allocate_request(message: bytes) -> list[list[str]]:
    """Return the device ids of each container of an `AllocateRequest`. Raises ValueError for anything else."""
    return [[each.decode() for each in _fields(container)] for container in _fields(message)]


def _container(settings: ContainerSettings) -> bytes:
    parts = [_field(1, _text(1, name) + _text(2, value)) for name, value in settings.envs.items()]
    parts += [_field(2, _text(1, inside) + _text(2, host) + b"\x18\x01") for host, inside in settings.mounts]
    parts += [_field(3, _text(1, inside) + _text(2, host) + _text(3, "rw")) for host, inside in settings.devices]
    return b"".join(parts)


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | _TEXT) + varint(len(content)) + content


def _fields(message: bytes) -> list[bytes]:
    """Return the contents of a message that has texts or messages in field 1 only. Raises ValueError."""
    found: list[bytes] = []
    at = 0
    while at < len(message):
        if message[at] != (1 << 3 | _TEXT):
            raise ValueError("an unknown field")
        length, at = _length(message, at + 1)
        if at + length > len(message):
            raise ValueError("a field that ends too early")
        found.append(message[at : at + length])
        at += length
    return found


def _length(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it. Raises ValueError."""
    length = shift = 0
    while shift <= _MAX_SHIFT and at < len(message):
        length |= (message[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not message[at - 1] & 0x80:
            return length, at
    raise ValueError("a length without an end")
