"""YAML bodies, read as Kubernetes reads them: converted to JSON. Only the first document is read.

Values are composed from the parser's events here, because its own composer recurses for every level: a few kilobytes of
brackets would end the process. Anchors are copied where they are used. A document that is nested too deeply, or has
more values than the limit, including those of aliases, is rejected as soon as that is detected. Reading YAML costs ten
times as much as JSON, so its limits are lower; clients with larger documents send JSON, as kubectl always does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from tarmac.api.decode.jsontext import Malformed, Parsed, parse_json
from tarmac.api.decode.yamlscalars import is_plain, key, scalar
from tarmac.api.schema import Json
from tarmac.api.status import TooLarge

MAX_BYTES = 1024 * 1024
MAX_VALUES = 10_000  # keys included
_MAX_DEPTH = 500
_MAX_DIRECTIVES = 1000  # libyaml compares each with all before it
_NO_KEY = object()
_MERGE = object()


class YamlParsed(NamedTuple):
    """A JSON value, and a note on each repeated key."""

    value: Json
    repeated: list[str]


def parse_yaml(body: bytes) -> YamlParsed:
    """Parse the first document. Raises Malformed with the line, and TooLarge for one that takes too long to read.

    Most bodies sent as YAML are JSON; those have the limits of JSON.
    """
    found = _as_json(body)
    if found is not None:
        return YamlParsed(found.value, [])
    if len(body) > MAX_BYTES:
        raise _too_large(f"{len(body)} bytes", MAX_BYTES)
    if _directives(body) > _MAX_DIRECTIVES:
        raise Malformed("yaml: found too many %TAG directives")
    try:
        loader = yaml.CSafeLoader(body)
        try:
            return _Reader(loader).document()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise Malformed(_describe(error, body.count(b"\n") + 1)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Malformed(f"yaml: {str(error).splitlines()[0]}") from None


def _as_json(body: bytes) -> Parsed | None:
    """Return the value if the body is JSON. None if keys repeat, since YAML reports those by their lines."""
    if body.lstrip()[:1] != b"{":
        return None
    try:
        found = parse_json(body)
    except Malformed:
        return None
    return found if found.pairs is None else None


def _directives(body: bytes) -> int:
    return body.count(b"%TAG") + body.count("%TAG".encode("utf-16-le")) + body.count("%TAG".encode("utf-16-be"))


def _too_large(what: str, limit: int) -> TooLarge:
    return TooLarge(f"Request entity too large: {what} of YAML, limit is {limit}; send it as JSON")


def _describe(error: yaml.MarkedYAMLError, lines: int) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {min(mark.line + 1, lines)}: " if mark else ""
    return f"yaml: {place}{error.problem or error.context}"


class _Anchored(NamedTuple):
    """The value of an alias, the number of values in it, and their depth."""

    value: Json
    size: int
    depth: int


class _Frame:
    """A list or object that is being read."""

    __slots__ = ("anchor", "depth", "key", "merged", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value: Any = value
        self.anchor = anchor
        self.key: Any = _NO_KEY  # of the next value; a list has none
        self.merged: dict[str, Json] = {}
        self.size = 1
        self.depth = 1

    def put(self, value: Json, size: int = 1, depth: int = 0) -> None:
        """Add the next value."""
        self.size += size
        if depth >= self.depth:
            self.depth = depth + 1
        if self.key is _MERGE:
            for source in reversed(value if isinstance(value, list) else [value]):
                self.merged.update(source if isinstance(source, dict) else {})
        elif self.key is _NO_KEY:
            self.value.append(value)
        else:
            self.value[self.key] = value
        self.key = _NO_KEY

    def finished(self) -> _Anchored:
        """Return the finished value; written members take precedence over merged ones."""
        if self.merged:
            return _Anchored({**self.merged, **self.value}, self.size, self.depth)
        return _Anchored(self.value, self.size, self.depth)


class _Reader:
    """Composes values from events. `_open` are the lists and objects around the current position."""

    def __init__(self, loader: yaml.CSafeLoader) -> None:
        self._next = loader.get_event
        self._open: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}  # None: its value is not finished
        self._values = 0
        self._repeated: list[str] = []

    def document(self) -> YamlParsed:
        """Read to the end of the first document."""
        root = _Frame([], None)
        self._open.append(root)
        while type(event := self._next()) not in (yaml.DocumentEndEvent, yaml.StreamEndEvent):
            self._take(event)
        return YamlParsed(root.value[0] if root.value else None, self._repeated)

    def _take(self, event: Any) -> None:
        kind, frame = type(event), self._open[-1]
        self._count(1)
        if kind in (yaml.SequenceEndEvent, yaml.MappingEndEvent):
            self._close()
        elif isinstance(frame.value, dict) and frame.key is _NO_KEY:
            self._take_key(event, frame)
        elif kind is yaml.ScalarEvent:
            frame.put(self._scalar(event))
        elif kind is yaml.AliasEvent:
            frame.put(*self._copy(event.anchor))
        elif kind in (yaml.SequenceStartEvent, yaml.MappingStartEvent):
            self._begin(_Frame([] if kind is yaml.SequenceStartEvent else {}, event.anchor))

    def _take_key(self, event: Any, frame: _Frame) -> None:
        line = event.start_mark.line + 1
        if type(event) is yaml.ScalarEvent:
            if is_plain(event) and event.value == "<<":
                frame.key = _MERGE
                return
            value = self._scalar(event)
        else:
            value = self._copy(event.anchor).value if type(event) is yaml.AliasEvent else None
        frame.key = key(value, line)
        if frame.key in frame.value:
            self._repeated.append(f'line {line}: key "{frame.key}" already set in map')

    def _count(self, more: int) -> None:
        self._values += more
        if self._values > MAX_VALUES:
            raise _too_large(f"more than {MAX_VALUES} values", MAX_VALUES)

    def _scalar(self, event: yaml.ScalarEvent) -> Json:
        value = scalar(event)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, 1, 0)
        return value

    def _begin(self, frame: _Frame) -> None:
        self._open.append(frame)
        if len(self._open) > _MAX_DEPTH:
            raise Malformed("yaml: exceeded max depth")
        if frame.anchor:
            self._anchors[frame.anchor] = None

    def _close(self) -> None:
        frame = self._open.pop()
        found = frame.finished()
        if frame.anchor:
            self._anchors[frame.anchor] = found
        self._open[-1].put(*found)

    def _copy(self, anchor: str | None) -> _Anchored:
        if anchor is None or anchor not in self._anchors:
            raise Malformed(f"yaml: unknown anchor '{anchor}' referenced")
        found = self._anchors[anchor]
        if found is None:
            raise Malformed(f"yaml: anchor '{anchor}' value contains itself")
        self._count(found.size)
        if len(self._open) + found.depth > _MAX_DEPTH:
            raise Malformed("yaml: exceeded max depth")
        return found._replace(value=_copied(found.value))


def _copied(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
