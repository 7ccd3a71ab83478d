"""OpenAPI v2 as gnostic's protobuf document, the form that kubectl requests.

Only the parts that our documents use are written. Field numbers are those of gnostic-models' `openapiv2` package. A
document is written in parts (`head`, `paths`, `definitions`): concatenated protobuf messages are merged, so the part
that `make setup` made for Kubernetes' own kinds and the part made here for Tarmac's only need to be joined.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from typing import Any

from tarmac.wire.protobuf import varint

Node = dict[str, Any]
Writer = Callable[[int, Any], bytes]


def head(document: Node) -> bytes:
    """Return all of a document but paths and definitions."""
    info, schemes = document["info"], document["securityDefinitions"]
    written = _text(1, document["swagger"])
    written += _message(2, _text(1, info["title"]) + _text(2, info["version"]))
    for requirement in document["security"]:
        names = b"".join(_named(name, b"") for name in requirement)
        written += _message(12, names)
    definitions = b"".join(_named(name, _message(2, _api_key(scheme))) for name, scheme in schemes.items())
    return written + _message(13, definitions)


def paths(items: Node) -> bytes:
    """Return `paths`, as a part of a document."""
    return _message(8, b"".join(_message(2, _text(1, path) + _message(2, _path(item))) for path, item in items.items()))


def definitions(schemas: Node) -> bytes:
    """Return `definitions`, as a part of a document."""
    return _message(9, b"".join(_named(name, _schema(schema)) for name, schema in schemas.items()))


# --- wire format ---


def _message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode()) if text else b""


def _texts(number: int, texts: Iterable[str]) -> bytes:
    return b"".join(_message(number, text.encode()) for text in texts)


def _flag(number: int, value: bool) -> bytes:
    return varint(number << 3) + b"\x01" if value else b""


def _integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value & 0xFFFFFFFFFFFFFFFF)


def _double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def _named(name: str, value: bytes) -> bytes:
    """Return a member of a map: gnostic writes maps as lists of named values, always in field 1."""
    return _message(1, _text(1, name) + _message(2, value))


def _any(number: int, value: Any) -> bytes:
    """Return any value as YAML text; JSON is YAML."""
    return _message(number, _text(2, json.dumps(value)))


def _anys(number: int, values: Iterable[Any]) -> bytes:
    return b"".join(_any(number, value) for value in values)


def _extensions(number: int, node: Node) -> bytes:
    extensions = [(key, value) for key, value in node.items() if key.startswith("x-")]
    return b"".join(_message(number, _text(1, key) + _any(2, value)) for key, value in extensions)


def _written(node: Node, writers: dict[str, tuple[int, Writer]], extensions: int) -> bytes:
    known = [(writers[key], value) for key, value in node.items() if key in writers]
    return b"".join(write(number, value) for (number, write), value in known) + _extensions(extensions, node)


# --- schemas ---


def _schema(node: Node) -> bytes:
    return _written(node, _SCHEMA, 31)


def _properties(number: int, fields: Node) -> bytes:
    return _message(number, b"".join(_named(name, _schema(field)) for name, field in fields.items()))


_SCHEMA: dict[str, tuple[int, Writer]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "description": (4, _text),
    "maximum": (7, _double),
    "minimum": (9, _double),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "required": (19, _texts),
    "enum": (20, _anys),
    "additionalProperties": (21, lambda number, value: _message(number, _message(1, _schema(value)))),
    "type": (22, lambda number, value: _message(number, _text(1, value))),
    "items": (23, lambda number, value: _message(number, _message(1, _schema(value)))),
    "properties": (25, _properties),
}


# --- operations ---


def _path(item: Node) -> bytes:
    return _written(item, _PATH, 10)


def _operation(number: int, operation: Node) -> bytes:
    return _message(number, _written(operation, _OPERATION, 13))


def _parameters(number: int, parameters: list[Node]) -> bytes:
    return b"".join(_message(number, _message(1, _parameter(parameter))) for parameter in parameters)


def _parameter(parameter: Node) -> bytes:
    if parameter["in"] == "body":
        return _message(1, _written(parameter, _BODY, 6))
    choice, writers, extensions = _IN[parameter["in"]]
    return _message(2, _message(choice, _written(parameter, writers, extensions)))


def _responses(number: int, responses: Node) -> bytes:
    return _message(
        number, b"".join(_named(code, _message(1, _response(answer))) for code, answer in responses.items())
    )


def _response(answer: Node) -> bytes:
    schema = _message(2, _message(1, _schema(answer["schema"]))) if "schema" in answer else b""
    return _text(1, answer["description"]) + schema


_PATH: dict[str, tuple[int, Writer]] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "options": (6, _operation),
    "head": (7, _operation),
    "patch": (8, _operation),
    "parameters": (9, _parameters),
}
_OPERATION: dict[str, tuple[int, Writer]] = {
    "tags": (1, _texts),
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, _responses),
    "schemes": (10, _texts),
}
_BODY: dict[str, tuple[int, Writer]] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, lambda number, value: _message(number, _schema(value))),
}
_COMMON: dict[str, tuple[int, Writer]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
}
# location of a parameter -> (its choice among parameters, its fields, its extensions)
_IN: dict[str, tuple[int, dict[str, tuple[int, Writer]], int]] = {
    "query": (3, {**_COMMON, "type": (6, _text), "format": (7, _text), "uniqueItems": (20, _flag)}, 23),
    "path": (4, {**_COMMON, "type": (5, _text), "format": (6, _text), "uniqueItems": (19, _flag)}, 22),
}


def _api_key(scheme: Node) -> bytes:
    return (
        _text(1, scheme["type"]) + _text(2, scheme["name"]) + _text(3, scheme["in"]) + _text(4, scheme["description"])
    )
