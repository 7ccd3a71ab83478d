"""Protobuf bodies of Kubernetes' own kinds, converted to JSON by a generic walk over the generated field table.

A body is four magic bytes and a `runtime.Unknown`: type, kind, and the object's own message. Embedded structs, which
are messages of their own on the wire, become flat as they are in JSON. A field number that is not in the table means
that the client is newer than the server: the field is dropped and reported like an unknown JSON field. Fields are
counted while they are read; a body with more fields than a JSON text may have values is rejected.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tarmac.api.decode.extent import MAX_VALUES, check_extent, too_many_values
from tarmac.api.decode.jsontext import Malformed
from tarmac.api.schema import Json, JsonObject
from tarmac.api.tables import read_generated, type_name
from tarmac.base.clock import rfc3339
from tarmac.base.duration import format_duration

MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."


class _Field(NamedTuple):
    json: str  # empty: embedded
    shape: str  # "" one value, "[]" list, "{}" map
    type: str


_Table = dict[int, _Field]


@cache
def _messages() -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(read_generated("wire.json"), type=dict[str, msgspec.Raw])


@cache
def _table(message: str) -> _Table:
    return msgspec.json.decode(_messages()[message], type=_Table)


def parse_protobuf(body: bytes, group: str, version: str, kind: str) -> tuple[JsonObject, list[str]]:
    """Return the object and notes on dropped fields. Type and kind default to those given. Raises Malformed."""
    if not body.startswith(MAGIC):
        expected = f"[{' '.join(str(byte) for byte in MAGIC)}]"
        raise Malformed(f"provided data does not appear to be a protobuf message, expected prefix {expected}")
    envelope = _parts(body[len(MAGIC) :])
    header = _parts(envelope.get(1, b""))
    api_version, given_kind = _text(header.get(1, b"")), _text(header.get(2, b""))
    if api_version:
        group, _, version = api_version.rpartition("/")
    obj: JsonObject = {"apiVersion": api_version or None, "kind": given_kind or None}
    message = type_name(group, version, given_kind or kind)
    reader = _Reader()
    if message is not None:
        reader.read_into(obj, _as_bytes(envelope.get(2, b"")), message)
    return obj, reader.notes


class _Reader:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self._count = 0

    def _fields(self, data: bytes) -> Iterator[tuple[int, int | bytes]]:
        for field in _fields(data):
            self._counted()
            yield field

    def _counted(self) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            raise too_many_values(self._count)

    def read_into(self, obj: JsonObject, data: bytes, message: str) -> None:
        table = _table(message)
        for number, value in self._fields(data):
            field = table.get(number)
            if field is None:
                self.notes.append(f"unknown field number {number} in {message.rpartition('.')[2]}")
            elif not field.json:
                self.read_into(obj, _as_bytes(value), field.type)
            elif field.shape == "{}":
                self._read_entry(obj.setdefault(field.json, {}), _as_bytes(value), field.type)
            elif field.shape == "[]":
                self._extend(obj.setdefault(field.json, []), value, field.type)
            else:
                obj[field.json] = self._value(value, field.type)

    def _extend(self, items: list[Json], value: int | bytes, type: str) -> None:
        if type == "int" and isinstance(value, bytes):  # packed
            position = 0
            while position < len(value):
                self._counted()
                number, position = _varint(value, position)
                items.append(_signed(number))
        else:
            items.append(self._value(value, type))

    def _read_entry(self, entries: JsonObject, data: bytes, type: str) -> None:
        key, value = "", b""
        for number, part in self._fields(data):
            if number == 1:
                key = _text(part)
            elif number == 2:
                value = _as_bytes(part)
        entries[key] = self._value(value, type)

    def _value(self, value: int | bytes, type: str) -> Json:
        scalar = _SCALARS.get(type)
        if scalar is not None:
            return scalar(value)
        if type == "strings":
            return [_text(item) for _, item in self._fields(_as_bytes(value))]
        obj: JsonObject = {}
        self.read_into(obj, _as_bytes(value), type)
        return obj


# --- scalars, and messages that are scalars in JSON ---


def _text(value: int | bytes) -> str:
    return _as_bytes(value).decode("utf-8", "replace")


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Malformed("proto: wrong wireType for a length-delimited field")
    return value


def _integer(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise Malformed("proto: wrong wireType for a number")
    return _signed(value)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _double(value: int | bytes) -> float:
    return struct.unpack("<d", struct.pack("<Q", _integer(value) & (2**64 - 1)))[0]


def _seconds(value: int | bytes) -> tuple[int, int]:
    parts = _parts(value)
    return _integer(parts.get(1, 0)), _integer(parts.get(2, 0))


def _time(value: int | bytes) -> str | None:
    """Return the time; no bytes at all are Go's zero time, which is null in JSON."""
    return _moment(_seconds(value)[0]) if value else None


def _micro_time(value: int | bytes) -> str | None:
    if not value:
        return None
    seconds, nanos = _seconds(value)
    carried, nanos = divmod(nanos, 10**9)  # as in Go: any number of nanoseconds, including negative ones
    return f"{_moment(seconds + carried)[:-1]}.{nanos // 1000:06d}Z"


def _moment(seconds: int) -> str:
    try:
        return rfc3339(seconds)
    except (ValueError, OverflowError, OSError):  # depends on the library that first rejects the year
        raise Malformed(f"proto: {seconds} seconds since 1970 are outside of the years 1 to 9999") from None


def _int_or_string(value: int | bytes) -> int | str:
    parts = _parts(value)
    return _text(parts.get(3, b"")) if parts.get(1) else _integer(parts.get(2, 0))


def _raw_json(value: int | bytes) -> Json:
    raw = _as_bytes(_parts(value).get(1, b""))
    check_extent(raw)
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"embedded JSON: {error}") from None


def _duration(value: int | bytes) -> str:
    return format_duration(_integer(_parts(value).get(1, 0)) / 1e9)


_SCALARS: dict[str, Callable[[int | bytes], Any]] = {
    "string": _text,
    "int": _integer,
    "bool": bool,
    "double": _double,
    "bytes": lambda value: b64encode(_as_bytes(value)).decode(),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda value: _text(_parts(value).get(1, b"0")),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
    _META + "FieldsV1": _raw_json,
    _META + "Time": _time,
    _META + "MicroTime": _micro_time,
    _META + "Duration": _duration,
}


# --- wire format ---

_MAX_PARTS = 16  # fields of a message that is a scalar in JSON; none has more than four


def _parts(value: int | bytes) -> dict[int, int | bytes]:
    """Return all fields of a small message."""
    found = list(islice(_fields(_as_bytes(value)), _MAX_PARTS + 1))
    if len(found) > _MAX_PARTS:
        raise Malformed("proto: too many fields in a message")
    return dict(found)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of every field in a message; a value is an unsigned number, or bytes."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _BYTES:
            size, position = _varint(data, position)
            value, position = data[position : position + size], position + size
        elif kind == _VARINT:
            value, position = _varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            value, position = int.from_bytes(data[position : position + size], "little"), position + size
        else:
            raise Malformed(f"proto: illegal wireType {kind}")
        if position > end:
            raise Malformed("unexpected EOF")
        yield tag >> 3, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, position
            shift += 7
            if shift > 63:
                raise Malformed("proto: integer overflow")
    except IndexError:
        raise Malformed("unexpected EOF") from None
