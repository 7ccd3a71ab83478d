"""Path elements: one step of a path in a field set.

Elements are kept in wire form, so that a field set is its own serialisation:

    f:replicas                     a field of an object or a key of a map
    k:{"name":"web"}               the item of a list-map with these keys (sorted by name)
    v:"finalizer.example.com"      the item of a set with this value
    i:3                            an index (only in sets written by other servers)

Values are encoded exactly as Kubernetes encodes them (no spaces, `<`, `>` and `&` escaped), so equal elements are equal
strings. `order` is the total order in which elements are written: fields, keys, values, indexes; numbers numerically.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tarmac.base.boundedcache import bounded_cache

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode
_plain = re.compile(r"[A-Za-z0-9 _./:@+,=*-]*").fullmatch
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPES = str.maketrans(_ESCAPED)

_KINDS = {"f": 0, "k": 1, "v": 2, "i": 3}
_INTEGRAL_LIMIT = 1e21  # Go prints larger floats with an exponent


class BadElement(ValueError):
    """Not a path element."""


def encode_value(value: Any) -> str:
    """Encode one JSON value in Kubernetes' canonical form."""
    if type(value) is str:
        if _plain(value):
            return f'"{value}"'
    elif type(value) is int:
        return str(value)
    elif isinstance(value, float) and value.is_integer() and abs(value) < _INTEGRAL_LIMIT:
        value = int(value)
    return _encode(value).decode().translate(_ESCAPES)


def field_element(name: str) -> str:
    """Return the element of a field or map key."""
    return "f:" + name


def value_element(value: Any) -> str:
    """Return the element of a set's item."""
    return "v:" + encode_value(value)


def key_element(keys: dict[str, Any]) -> str:
    """Return the element of a list-map's item."""
    return "k:{" + ",".join(f"{encode_value(name)}:{encode_value(keys[name])}" for name in sorted(keys)) + "}"


def canonical(element: str) -> str | None:
    """Return the canonical spelling of a client's element; None for an unknown kind, from a newer version."""
    if len(element) < 2 or element[1] != ":":
        raise BadElement(f"missing colon: {element}")
    kind, text = element[0], element[2:]
    try:
        if kind == "f":
            return element
        if kind == "k":
            return key_element(_mapping(_decode(text)))
        if kind == "v":
            return value_element(_decode(text))
        if kind == "i":
            return f"i:{int(text)}"
    except (ValueError, msgspec.DecodeError) as error:
        raise BadElement(str(error)) from error
    return None


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadElement("a key element must be an object")
    return value


@bounded_cache(4096)  # names of conditions, containers and the like repeat in most objects
def order(element: str) -> tuple[Any, ...]:
    """Return the sort key of an element. The "." that marks a set's own membership comes first."""
    if element == ".":
        return (-1,)
    kind, text = element[0], element[2:]
    rank = _KINDS[kind]
    if kind == "f":
        return (rank, text)
    if kind == "k":
        return (rank, tuple((name, *value_order(value)) for name, value in _decode(text).items()))
    return (rank, *value_order(_decode(text)))


def value_order(value: Any) -> tuple[Any, ...]:
    """Return the sort key of a JSON value: numbers, strings, booleans, lists, objects, null."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    if isinstance(value, list):
        return (3, tuple(value_order(item) for item in value))
    if isinstance(value, dict):
        return (4, tuple((name, *value_order(value[name])) for name in sorted(value)))
    return (5,)


def display(element: str) -> str:
    """Format an element for conflicts: `.replicas`, `[name="web"]`, `[="x"]`, `[3]`."""
    kind, text = element[0], element[2:]
    if kind == "f":
        return "." + text
    if kind == "k":
        return "[" + ",".join(f"{name}={quoted(value)}" for name, value in _decode(text).items()) + "]"
    if kind == "v":
        return f"[={quoted(_decode(text))}]"
    return f"[{text}]"


def quoted(value: Any) -> str:
    """Format a value for messages: strings in quotes, lists in brackets."""
    if isinstance(value, list):
        return "[" + ",".join(quoted(item) for item in value) + "]"
    if isinstance(value, dict):
        return "".join(f"{name}={quoted(item)}" for name, item in value.items())
    return _encode(value).decode()
