"""Reading `/metrics/resource`: the samples of Prometheus' text format that we know, and nothing else of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple

_LINE = re.compile(r"([a-z_]+)(?:\{([^}]*)\})? ([0-9.eE+-]+)(?: ([0-9]{1,15}))?")
_LABEL = re.compile(r'([a-z_]+)="([^"\\]*)"')


class Sample(NamedTuple):
    """One number. `at` is when it was measured, in Unix seconds."""

    name: str
    namespace: str
    pod: str
    container: str
    value: float
    at: float


def samples(text: str, now: float) -> Iterator[Sample]:
    """Every line that is one; `now` for those that do not say when."""
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        labels = dict(_LABEL.findall(match[2] or ""))
        try:
            value = float(match[3])
        except ValueError:
            continue
        if not isfinite(value):  # `1e999` is a number too, until somebody counts with it
            continue
        at = int(match[4]) / 1000 if match[4] else now
        get = labels.get
        yield Sample(match[1], get("namespace", ""), get("pod", ""), get("container", ""), value, at)
