"""Metrics in the shape that Prometheus takes: families of samples, and a histogram of durations.

Producers count in plain attributes, which costs next to nothing; names, labels and cumulative buckets are made at
scrape time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

Labels = Iterable[tuple[str, str]]
Sample = tuple[str, Labels, float]
"""Name, labels, value."""

Family = tuple[str, str, str, Iterable[Sample]]
"""Name, type, description, samples."""


def labels_text(labels: Labels) -> str:
    """Format as `{a="b"}` with values escaped; empty without any."""
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{{{shown}}}" if shown else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def counted(name: str, description: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], int]) -> Family:
    """Return a gauge with a sample for each combination of label values."""
    samples = [(name, list(zip(labels, key, strict=True)), float(value)) for key, value in sorted(values.items())]
    return name, "gauge", description, samples


class Histogram:
    """Durations in fixed buckets; not cumulative until shown."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    def samples(self, name: str, labels: list[tuple[str, str]]) -> Iterator[Sample]:
        """Yield the cumulative samples for Prometheus."""
        total = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            yield f"{name}_bucket", [*labels, ("le", f"{bound:g}" if bound != "+Inf" else "+Inf")], total
        yield f"{name}_sum", labels, self.sum
        yield f"{name}_count", labels, total
