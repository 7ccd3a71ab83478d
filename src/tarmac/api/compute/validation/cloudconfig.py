"""Reads a cloud-config as cloud-init does: one YAML document, tags of plain YAML only, a mapping.

The parser's events are checked one by one and no value is built from them, so the cost is linear in the length of the
text, regardless of nesting and aliases. Too many levels or aliases are rejected as soon as they occur.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

_MAX_DEPTH, _MAX_ALIASES, _MAX_EVENTS, _MAX_DIRECTIVES = 20, 100, 10_000, 20
_NO_MAPPING = "must be a mapping, such as `packages: [nginx]`"
_PLAIN: Final = frozenset(
    {"null", "bool", "int", "float", "binary", "timestamp", "omap", "pairs", "set", "str", "seq", "map"}
)
_CORE = "tag:yaml.org,2002:"
_STARTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class UnreadableCloudConfig(ValueError):
    """A cloud-config that cloud-init could not read; the message has the position and the reason."""


def top_level_keys(text: str) -> list[str]:
    """Return the keys of the mapping. Raises UnreadableCloudConfig with line and column."""
    if text.count("%TAG") > _MAX_DIRECTIVES:  # libyaml compares each with all before it
        raise UnreadableCloudConfig(f"has more than {_MAX_DIRECTIVES} %TAG directives")
    try:
        loader = yaml.CSafeLoader(text)
        try:
            return _Scan(loader.get_event).keys()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise UnreadableCloudConfig(
            _at(error.problem_mark or error.context_mark, error.problem or "cannot be read")
        ) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise UnreadableCloudConfig(f"is not YAML: {str(error).splitlines()[0]}") from None


def _at(mark: Any, what: str) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else what


class _Scan:
    """Follows the events of one document. `_depth` is the number of open lists and mappings."""

    def __init__(self, next_event: Any) -> None:
        self._next = next_event
        self._depth = self._aliases = self._documents = 0
        self._at_key = True  # True if the next member of the outermost mapping is a key
        self._keys: list[str] = []
        self._anchors: set[str] = set()

    def keys(self) -> list[str]:
        """Read to the end and return the keys."""
        for _ in range(_MAX_EVENTS):
            event = self._next()
            if type(event) is yaml.StreamEndEvent:
                if not self._documents:
                    raise UnreadableCloudConfig(_NO_MAPPING)
                return self._keys
            self._take(event)
        raise UnreadableCloudConfig(f"has more than {_MAX_EVENTS} values")

    def _take(self, event: Any) -> None:
        kind = type(event)
        if kind is yaml.DocumentStartEvent:
            self._documents += 1
            if self._documents > 1:
                raise UnreadableCloudConfig(_at(event.start_mark, "there must be only one document"))
        elif kind in _STARTS:
            self._check(event)
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise UnreadableCloudConfig(
                    _at(event.start_mark, f"may not be nested more than {_MAX_DEPTH} levels deep")
                )
        elif kind in _ENDS:
            self._depth -= 1
            self._finish_member()
        elif kind in (yaml.ScalarEvent, yaml.AliasEvent):
            self._check(event)
            if self._depth == 1 and self._at_key and kind is yaml.ScalarEvent:
                self._keys.append(event.value)
            self._finish_member()

    def _finish_member(self) -> None:
        if self._depth == 1:
            self._at_key = not self._at_key

    def _check(self, event: Any) -> None:
        """Reject events from which a safe loader could not build a value."""
        if not self._depth and type(event) is not yaml.MappingStartEvent:
            raise UnreadableCloudConfig(_at(event.start_mark, _NO_MAPPING))
        if type(event) is yaml.AliasEvent:
            self._alias(event)
            return
        tag = event.tag
        if tag and tag != "!" and tag.removeprefix(_CORE) not in _PLAIN:
            raise UnreadableCloudConfig(_at(event.start_mark, f"the tag {tag} is not one of plain YAML"))
        if event.anchor:
            self._anchors.add(event.anchor)

    def _alias(self, event: Any) -> None:
        self._aliases += 1
        if self._aliases > _MAX_ALIASES:
            raise UnreadableCloudConfig(_at(event.start_mark, f"there may be at most {_MAX_ALIASES} aliases"))
        if event.anchor not in self._anchors:
            raise UnreadableCloudConfig(_at(event.start_mark, f"found undefined alias '{event.anchor}'"))
