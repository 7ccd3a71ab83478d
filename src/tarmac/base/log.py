"""Structured logs: a constant message and keys, one line each, on stderr.

Values may come from anybody: whatever is not printable is written as an escape, so that no value can begin a line of
its own or talk to a terminal, and of a long one the beginning and the end are kept.

Two levels are meant for reading: `info` (what happened) and `debug` (why). `warning` and `error` are for what an
operator should look at. Values are written as they are given; never pass a secret. `configure` is called once, by the
program's composition root; before that, lines are plain text at level info.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from functools import cache
from typing import Any, Literal, TextIO

from tarmac.base.clock import rfc3339_micro

Level = Literal["debug", "info", "warning", "error"]
_LONGEST = 8192  # characters of one value
_RANK = {"debug": 0, "info": 1, "warning": 2, "error": 3}


class _Sink:
    """Where lines go. One for the whole process."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None  # the current sys.stderr, looked up at each line
        self.as_json = False
        self.threshold = _RANK["info"]

    def write(self, level: Level, name: str, message: str, fields: dict[str, Any]) -> None:
        now = rfc3339_micro(time.time())
        if self.as_json:
            shown = {key: _bounded(value) for key, value in fields.items()}
            line = json.dumps({"ts": now, "level": level, "logger": name, "msg": message, **shown}, default=str)
        else:
            pairs = "".join(f" {key}={_plain(value)}" for key, value in fields.items())
            line = f"{now} {level.upper():7} {name}: {message}{pairs}"
        with suppress(OSError):  # a log on a full disk must not fail what it tells about
            print(line, file=self.stream or sys.stderr, flush=True)


_sink = _Sink()


def configure(*, level: Level = "info", as_json: bool = False, stream: TextIO | None = None) -> None:
    """Choose what is written, how, and where to."""
    _sink.threshold, _sink.as_json, _sink.stream = _RANK[level], as_json, stream


class Logger:
    """Writes lines under one name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, message: str, /, **fields: Any) -> None:
        """Why something happened."""
        if _sink.threshold <= 0:
            _sink.write("debug", self._name, message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        """What happened."""
        if _sink.threshold <= 1:
            _sink.write("info", self._name, message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        """Something odd that the program handled."""
        if _sink.threshold <= 2:
            _sink.write("warning", self._name, message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        """Something failed."""
        _sink.write("error", self._name, message, fields)


@cache
def log(name: str) -> Logger:
    """The logger of that name."""
    return Logger(name)


def _bounded(value: Any) -> Any:
    """The value itself, or where it would be long, the two ends of its text."""
    if isinstance(value, int | float) or value is None:
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text) <= _LONGEST:
        return value
    end = _LONGEST // 2
    return f"{text[:end]} … {len(text) - _LONGEST} characters … {text[-end:]}"


def _plain(value: Any) -> str:
    value = _bounded(value)
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    bare = text and text.isprintable() and " " not in text and '"' not in text
    return text if bare else json.dumps(text)
