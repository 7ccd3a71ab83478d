"""JSON bodies: parsed in C, with repeated keys detected at almost no cost.

A parser that keeps the last of two equal keys leaves no trace of the first. The parsed value, encoded again, has the
same number of quotation marks as the body, unless a key was lost or a string was escaped in an unusual way; then a
slower parser that sees every key reads the body again. That parser also accepts input that Go accepts and msgspec does
not (lone surrogates, bytes that are not UTF-8), so it alone decides if a body is malformed.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import msgspec

from tarmac.api.decode.extent import check_extent
from tarmac.api.decode.jsonsyntax import describe_error
from tarmac.api.schema import Json

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_LARGE = 1 << 15  # bytes: larger texts get their own pages from the system; untouched pages cost nothing


class Malformed(ValueError):
    """The text is not JSON; the message is Go's, with the position."""


class Parsed(NamedTuple):
    """A JSON value. `pairs` is the same with every object as `Pairs`, set only when an object has a key twice."""

    value: Json
    pairs: Written | None = None


class Pairs(dict[str, Any]):
    """An object whose text may repeat keys: `all` are its members as written. Equal keys are merged as in Go."""

    __slots__ = ("all", "repeats")

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.all = members
        self.repeats = False
        merged: dict[str, dict[str, Any]] = {}  # made here, so each may grow in place for every repetition of its key
        for key, value in members:
            earlier = self.get(key)
            if isinstance(earlier, dict) and isinstance(value, dict):
                if earlier is not merged.get(key):
                    merged[key] = self[key] = {**earlier}
                merged[key].update(value)
            else:
                self[key] = value
        self.repeats = len(self) != len(members)


Written = Pairs | list[Any]


def parse_json(body: bytes) -> Parsed:
    """Parse any JSON text. Raises Malformed, and TooLarge for one with too many values."""
    check_extent(body)
    if len(body) > _LARGE:
        # The decoder dereferences a null pointer when memory is short. This allocation raises MemoryError first.
        bytes(2 * len(body))
    try:
        value = _decode(body)
        if _marks(body) == _marks(_encode(value)):
            return Parsed(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    return _parse_slowly(body)


def _marks(text: bytes) -> int:
    quotes = text.count(b'"')
    return quotes - text.count(b'\\"') if b"\\" in text else quotes


def _parse_slowly(body: bytes) -> Parsed:
    text = body.decode("utf-8", "replace")
    repeated = False

    def members(pairs: list[tuple[str, Any]]) -> Pairs:
        nonlocal repeated
        # Keys are replaced here, and not only in the value: messages about repeated ones name them.
        made = Pairs([(_plain(key), item) for key, item in pairs])
        repeated = repeated or made.repeats
        return made

    try:
        value = json.loads(text, object_pairs_hook=members, parse_constant=_no_constant)
        return Parsed(_plain(value), value if repeated else None)
    except RecursionError:
        raise Malformed("invalid character '{' exceeded max depth") from None
    except ValueError:
        raise Malformed(describe_error(text)) from None


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_SURROGATE = re.compile("[\ud800-\udfff]")


def _plain(value: Json) -> Json:
    """Return the same value in ordinary dicts, with lone surrogates replaced as in Go."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
