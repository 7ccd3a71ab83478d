"""Metrics as Prometheus reads them, by its own parser."""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

Series = tuple[str, frozenset[tuple[str, str]]]


def series(text: str) -> dict[Series, float]:
    """Return every sample by name and labels. Raises ValueError where Prometheus would drop the whole scrape."""
    found = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    repeated = [key for key, count in Counter(key for key, _ in found).items() if count > 1]
    if repeated:
        raise ValueError(f"told more than once: {repeated}")
    types = Counter(line.split()[2] for line in text.splitlines() if line.startswith("# TYPE"))
    if several := [name for name, count in types.items() if count > 1]:
        raise ValueError(f"families that begin more than once: {several}")
    return dict(found)
