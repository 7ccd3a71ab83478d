"""A protobuf encoder for tests: JSON objects of Kubernetes' own kinds as a Go client sends them."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import msgspec

from tarmac.api.decode.protobuf import MAGIC
from tarmac.api.tables import read_generated, type_name
from tarmac.base.clock import parse_rfc3339

_TABLE: dict[str, dict[str, list[str]]] = msgspec.json.decode(read_generated("wire.json"))
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."


def encode_body(obj: dict[str, Any], group: str = "", version: str = "v1", *, header: bool = True) -> bytes:
    """Encode a whole body: magic, envelope, object."""
    name = type_name(group, version, obj["kind"])
    assert name is not None
    api_version = f"{group}/{version}" if group else version
    meta = field(1, api_version.encode()) + field(2, obj["kind"].encode()) if header else b""
    return MAGIC + field(1, meta) + field(2, message(obj, name)) + field(3, b"") + field(4, b"")


def message(obj: dict[str, Any], name: str) -> bytes:
    """Encode one message, its fields in the order of their numbers."""
    written = b""
    for number, (json_name, shape, kind) in sorted(_TABLE[name].items(), key=lambda entry: int(entry[0])):
        if not json_name:
            written += field(int(number), message(obj, kind))
        elif json_name in obj:
            written += _member(int(number), obj[json_name], shape, kind)
    return written


def field(number: int, value: int | bytes) -> bytes:
    """Encode one field: a number or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (2**64 - 1))
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _member(number: int, value: Any, shape: str, kind: str) -> bytes:
    if shape == "[]":
        return b"".join(field(number, _value(item, kind)) for item in value)
    if shape == "{}":
        entries = [field(1, key.encode()) + field(2, _value(item, kind)) for key, item in value.items()]
        return b"".join(field(number, entry) for entry in entries)
    return field(number, _value(value, kind))


def _value(value: Any, kind: str) -> int | bytes:
    match kind.rpartition(".")[2]:
        case "string":
            return value.encode()
        case "int" | "bool":
            return int(value)
        case "bytes":
            return b64decode(value)
        case "strings":
            return b"".join(field(1, item.encode()) for item in value)
        case "Quantity":
            return field(1, value.encode())
        case "IntOrString":
            return field(1, 1) + field(3, value.encode()) if isinstance(value, str) else field(1, 0) + field(2, value)
        case "Time" | "MicroTime":
            seconds = parse_rfc3339(value)
            return field(1, int(seconds // 1)) + field(2, round(seconds % 1 * 1e6) * 1000)
        case "FieldsV1" | "RawExtension":
            return field(1, json.dumps(value).encode())
        case _:
            return message(value, kind)
