"""Where the autoscaler reads metrics: a protocol of two questions, and the errors of asking them.

`Prometheus` and the API server's `metrics.k8s.io` answer in a running system; a simulation answers for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class NoMetric(Exception):
    """A question has no answer now; the text says why, for people."""


@dataclass(frozen=True, slots=True)
class ExternalQuestion:
    """Values of an external metric, for a place. `query` is in Prometheus' language."""

    query: str
    location: str
    url: str  # of the Prometheus to ask; empty when none is named


@dataclass(frozen=True, slots=True)
class InstanceUsage:
    """What one instance used lately, in thousandths of each unit, and when that was measured (Unix seconds)."""

    amounts: Mapping[str, int]
    measured: float


class MetricsSource(Protocol):
    """Answers questions about load. Both raise Unanswered."""

    async def external(self, question: ExternalQuestion) -> Sequence[int]:
        """The newest value of every series, in thousandths."""
        ...

    async def usage(self, namespace: str, labels: str) -> Mapping[str, InstanceUsage]:
        """What the pods that a label selector names use, by pod name."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
