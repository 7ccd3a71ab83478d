"""The autoscaler's source of metrics: a protocol with two queries, and its error.

`Prometheus` and the API server's `metrics.k8s.io` implement it in a running system; the simulation has its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class NoMetric(Exception):
    """A query without a result now. The text explains the reason to users."""


@dataclass(frozen=True, slots=True)
class ExternalQuery:
    """A query for an external metric at a Location. `query` is PromQL."""

    query: str
    location: str
    url: str  # of the Prometheus to query; empty when none is named


@dataclass(frozen=True, slots=True)
class InstanceUsage:
    """Recent usage of one instance, in thousandths of each unit, and the time of measurement (Unix seconds)."""

    amounts: Mapping[str, int]
    measured: float


class MetricsSource(Protocol):
    """Answers queries about load. Both queries raise NoMetric."""

    async def external(self, question: ExternalQuery) -> Sequence[int]:
        """Return the newest value of every series, in thousandths."""
        ...

    async def usage(self, namespace: str, labels: str) -> Mapping[str, InstanceUsage]:
        """Return the usage of the pods that a label selector matches, by pod name."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
