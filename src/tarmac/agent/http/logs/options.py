"""Options of a log request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tarmac.base.clock import parse_rfc3339

_STREAMS = {
    "All": frozenset({b"stdout", b"stderr"}),
    "Stdout": frozenset({b"stdout"}),
    "Stderr": frozenset({b"stderr"}),
}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options. None means unlimited."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None  # lines
    since: float | None = None  # Unix seconds
    limit: int | None = None  # bytes
    streams: frozenset[bytes] = _STREAMS["All"]

    @classmethod
    def read(cls, params: Mapping[str, Sequence[str]], now: float) -> LogOptions:
        """Parse the query. Raises ValueError with a message for users."""
        get = {name: values[-1] for name, values in params.items() if values and values[-1]}
        tail = get.get("tail", get.get("tailLines", ""))
        since = [now - _number(get["sinceSeconds"], "sinceSeconds", 1)] if "sinceSeconds" in get else []
        if "sinceTime" in get:
            since.append(parse_rfc3339(get["sinceTime"]))
        stream = get.get("stream", "All")
        if stream not in _STREAMS:
            raise ValueError(f'stream must be one of {", ".join(_STREAMS)}, not "{stream}"')
        return cls(
            follow=_is_true(get.get("follow")),
            previous=_is_true(get.get("previous")),
            timestamps=_is_true(get.get("timestamps")),
            tail=_number(tail, "tailLines", 0) if tail and tail != "all" else None,
            since=max(since) if since else None,
            limit=_number(get["limitBytes"], "limitBytes", 1) if "limitBytes" in get else None,
            streams=_STREAMS[stream],
        )


def _number(text: str, name: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f'{name} must be a number, not "{text}"') from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}")
    return number


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() not in ("false", "0")
