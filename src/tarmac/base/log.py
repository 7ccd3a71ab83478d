"""Structured logs: a constant message and keys, one line each, on stderr.

Values are untrusted: unprintable characters are escaped, so that no value can start a new line or control a terminal,
and of a long value the beginning and the end are kept.

Two levels are for reading: `info` (events) and `debug` (reasons). `warning` and `error` are for problems that an
operator should investigate. Values are written as given; never pass a secret. `configure` is called once, by the
program's composition root; before that, lines are plain text at level info.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from functools import cache
from typing import Any, Literal, Protocol

from tarmac.base.clock import rfc3339_micro

Level = Literal["debug", "info", "warning", "error"]
_MAX_VALUE = 8192  # characters of one value
_RANK = {"debug": 0, "info": 1, "warning": 2, "error": 3}


class LineStream(Protocol):
    """A destination of lines, such as an open file."""

    def write(self, s: str, /) -> object: ...
    def flush(self) -> object: ...


class _Sink:
    """The destination of lines. One for the whole process."""

    def __init__(self) -> None:
        self.stream: LineStream | None = None  # the current sys.stderr, looked up at each line
        self.as_json = False
        self.threshold = _RANK["info"]
        self.repeated = False  # warnings and errors also go to sys.stderr

    def write(self, level: Level, name: str, message: str, fields: dict[str, Any]) -> None:
        now = rfc3339_micro(time.time())
        if self.as_json:
            shown = {key: _bounded(value) for key, value in fields.items()}
            line = json.dumps({"ts": now, "level": level, "logger": name, "msg": message, **shown}, default=str)
        else:
            pairs = "".join(f" {key}={_plain(value)}" for key, value in fields.items())
            line = f"{now} {level.upper():7} {name}: {message}{pairs}"
        with suppress(OSError):  # a full disk under the log must not fail the caller
            print(line, file=self.stream or sys.stderr, flush=True)
        if self.repeated and _RANK[level] >= _RANK["warning"]:
            with suppress(OSError):
                print(line, file=sys.stderr, flush=True)


_sink = _Sink()


def configure(
    *, level: Level = "info", as_json: bool = False, stream: LineStream | None = None, repeated: bool = False
) -> None:
    """Set level, format and destination. `repeated`: warnings and errors also go to stderr."""
    _sink.threshold, _sink.as_json, _sink.stream, _sink.repeated = _RANK[level], as_json, stream, repeated


class Logger:
    """Writes lines under one name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, message: str, /, **fields: Any) -> None:
        """Log the reason of an event."""
        if _sink.threshold <= 0:
            _sink.write("debug", self._name, message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        """Log an event."""
        if _sink.threshold <= 1:
            _sink.write("info", self._name, message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        """Log an unexpected condition that the program handled."""
        if _sink.threshold <= 2:
            _sink.write("warning", self._name, message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        """Log a failure."""
        _sink.write("error", self._name, message, fields)


@cache
def log(name: str) -> Logger:
    """Return the logger of that name."""
    return Logger(name)


def _bounded(value: Any) -> Any:
    """Return the value itself, or the two ends of its text if it is long."""
    if isinstance(value, int | float) or value is None:
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text) <= _MAX_VALUE:
        return value
    end = _MAX_VALUE // 2
    return f"{text[:end]} … {len(text) - _MAX_VALUE} characters … {text[-end:]}"


def _plain(value: Any) -> str:
    value = _bounded(value)
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    bare = text and text.isprintable() and " " not in text and '"' not in text
    return text if bare else json.dumps(text)
