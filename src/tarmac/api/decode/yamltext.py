"""YAML bodies, read as Kubernetes reads them: YAML 1.1 turned into JSON.

The rules for plain scalars are those of the Go library behind Kubernetes, which differ from PyYAML's: `y` and `n` are
booleans, `1e3` is a number, dates stay text, and keys of any scalar type become strings. Only the first document
counts. Anchors are copied where they are used; a document whose aliases would expand beyond reason is refused.
"""

from __future__ import annotations

import copy
import math
import re
from base64 import b64decode
from typing import Any, NamedTuple

import yaml

from tarmac.api.decode.jsontext import Malformed
from tarmac.api.schema import Json

_MAX_NODES = 1_000_000
_MAX_DEPTH = 500

_BOOLEANS = {
    word: truth
    for truth, names in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off")))
    for name in names
    for word in ({name, name.upper()} if len(name) == 1 else {name, name.capitalize(), name.upper()})
}
_NULLS = {"", "~", "null", "Null", "NULL"}
_INFINITIES = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", ".nan", ".NaN", ".NAN"}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"([-+]?)(0b[01]+|0x[0-9a-fA-F]+|0o?[0-7]+|[0-9]+)")
_PLAIN = "plain"  # our tag for scalars without quotes or tag, whose meaning is decided here
_RESOLVED = {_PLAIN, *(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))}
_BINARY = "tag:yaml.org,2002:binary"


class _Loader(yaml.CSafeLoader):
    """PyYAML's parser without PyYAML's ideas about plain scalars."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN
        return super().resolve(kind, value, implicit)


class YamlParsed(NamedTuple):
    """A JSON value, and a note on each key that was given twice."""

    value: Json
    repeated: list[str]


def parse_yaml(body: bytes) -> YamlParsed:
    """The first document. Raises Malformed with the line."""
    try:
        loader = _Loader(body)
        try:
            root = loader.get_node() if loader.check_node() else None
            return YamlParsed(None, []) if root is None else _Reader(root).result()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise Malformed(_describe(error, body.count(b"\n") + 1)) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"yaml: {str(error).splitlines()[0]}") from None


def _describe(error: yaml.MarkedYAMLError, lines: int) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {min(mark.line + 1, lines)}: " if mark else ""
    return f"yaml: {place}{error.problem or error.context}"


class _Reader:
    """Turns a node graph into JSON values."""

    def __init__(self, root: yaml.Node) -> None:
        self._repeated: list[str] = []
        self._open: set[int] = set()
        self._done: dict[int, tuple[Json, int]] = {}
        self._nodes = 0
        self._value = self._read(root)

    def result(self) -> YamlParsed:
        return YamlParsed(self._value, self._repeated)

    def _read(self, node: yaml.Node) -> Json:
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        known = self._done.get(id(node))
        if known is not None:
            self._count(known[1])
            return copy.deepcopy(known[0])
        if id(node) in self._open:
            raise Malformed("yaml: anchor value contains itself")
        if len(self._open) > _MAX_DEPTH:
            raise Malformed("yaml: exceeded max depth")
        self._open.add(id(node))
        before = self._nodes
        value = self._list(node) if isinstance(node, yaml.SequenceNode) else self._object(node)
        self._open.discard(id(node))
        self._done[id(node)] = (value, self._nodes - before)
        return value

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > _MAX_NODES:
            raise Malformed("yaml: document contains excessive aliasing")

    def _list(self, node: yaml.SequenceNode) -> list[Json]:
        self._count(1 + len(node.value))
        return [self._read(item) for item in node.value]

    def _object(self, node: yaml.Node) -> dict[str, Json]:
        self._count(1 + len(node.value))
        made: dict[str, Json] = {}
        merged: dict[str, Json] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                value = self._read(value_node)
                for source in reversed(value if isinstance(value, list) else [value]):
                    merged.update(source if isinstance(source, dict) else {})
                continue
            key = _key(key_node)
            if key in made:
                self._repeated.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
            made[key] = self._read(value_node)
        return {**merged, **made}


def _key(node: yaml.Node) -> str:
    value = _scalar(node) if isinstance(node, yaml.ScalarNode) else None
    if value is None:
        raise Malformed(f"yaml: line {node.start_mark.line + 1}: unsupported map key")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _scalar(node: yaml.ScalarNode) -> Json:
    text: str = node.value
    if node.tag == _BINARY:
        return _binary(text)
    if node.tag not in _RESOLVED:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _number(text)


def _binary(text: str) -> str:
    try:
        return b64decode(text).decode("utf-8", "replace")
    except ValueError:
        raise Malformed("yaml: !!binary value contains invalid base64 data") from None


def _number(text: str) -> Any:
    if text in _INFINITIES:
        raise Malformed(f"yaml: {text} cannot be a JSON value")
    plain = text.replace("_", "") if text[:1] in "+-.0123456789" else text
    match = _INTEGER.fullmatch(plain)
    if match:
        sign, digits = match.groups()
        base = {"0b": 2, "0x": 16, "0o": 8}.get(digits[:2], 8 if digits[0] == "0" and len(digits) > 1 else 10)
        number = int(digits, base)
        return -number if sign == "-" else number
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        return number if math.isfinite(number) else text
    return text
