"""Rows of numbers with promises, printed as a table that can go into docs/numbers as it is."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Row:
    """One measured value: results of repeated runs, the promise, and the same on the real server if it ran."""

    what: str
    unit: str
    values: Sequence[float]
    promise: float | None = None
    at_least: bool = False  # the promise is a lower bound
    peer: Sequence[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        """The value that counts."""
        return statistics.median(self.values)

    @property
    def kept(self) -> bool:
        """True if the promise holds."""
        if self.promise is None:
            return True
        return self.median >= self.promise if self.at_least else self.median <= self.promise


def table(rows: Sequence[Row], with_peer: bool) -> str:
    """Markdown, one line a row."""
    head = ["measure", "unit", "median", "range", "promise", "kept"] + (
        ["kube-apiserver + etcd", "ratio"] if with_peer else []
    )
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cells(row, with_peer)) + " |" for row in rows]
    return "\n".join(lines)


def _cells(row: Row, with_peer: bool) -> list[str]:
    promise = "" if row.promise is None else f"{'≥' if row.at_least else '≤'} {_number(row.promise)}"
    kept = "" if row.promise is None else ("yes" if row.kept else "**NO**")
    spread = f"{_number(min(row.values))}–{_number(max(row.values))}" if len(row.values) > 1 else ""
    cells = [row.what, row.unit, _number(row.median), spread, promise, kept]
    if with_peer:
        peer = statistics.median(row.peer) if row.peer else None
        cells += ["", ""] if peer is None else [_number(peer), f"{_number(_ratio(row, peer))}x"]
    return cells


def _ratio(row: Row, peer: float) -> float:
    """Return how many times better Tarmac is: less of a cost, more of a rate."""
    return row.median / peer if row.unit.endswith("/s") else peer / row.median


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
