"""Parses `/metrics/resource`: only the known samples of Prometheus' text format."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import NamedTuple

_LINE = re.compile(r"([a-z_]+)(?:\{([^}]*)\})? ([0-9.eE+-]+)(?: ([0-9]{1,15}))?")
_LABEL = re.compile(r'([a-z_]+)="([^"\\]*)"')

_MAX_LINE = 4096  # characters of a line
_MAX_VALUE = 1e18
_MAX_SKEW = 3600.0  # seconds between a node's clock and the server's


class ScrapedSample(NamedTuple):
    """One sample. `at` is the time of measurement in Unix seconds."""

    name: str
    namespace: str
    pod: str
    container: str
    value: float
    at: float


def samples(text: str, now: float, names: Container[str]) -> Iterator[ScrapedSample | None]:
    """Yield a sample for every line with one of these names, and None for every other line.

    `now` is the time of samples without a timestamp. A node may send megabytes of lines: the caller yields to the event
    loop between them. The text is not split at once.
    """
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield _read(text[start:end], now, names) if end - start <= _MAX_LINE else None
        start = end + 1


def _read(line: str, now: float, names: Container[str]) -> ScrapedSample | None:
    match = _LINE.fullmatch(line.rstrip("\r"))
    if match is None or match[1] not in names:
        return None
    try:
        value = float(match[3])
    except ValueError:
        return None
    at = int(match[4]) / 1000 if match[4] else now
    # Reject extreme numbers and times: they would fail in the response that shows them with those of all other nodes.
    if not 0 <= value <= _MAX_VALUE or abs(at - now) > _MAX_SKEW:
        return None
    get = dict(_LABEL.findall(match[2] or "")).get
    return ScrapedSample(match[1], get("namespace", ""), get("pod", ""), get("container", ""), value, at)
