"""The planet of stories: `tarmac up` with simulated nodes, and a real Prometheus beside it.

A story sets the metrics that Prometheus scrapes by writing the file that `$METRICS` names. Nodes count as silent early,
so that the loss of one does not take a minute.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.prometheus import running_prometheus
from tests.support.tarmac_process import TarmacProcess

STORIES = Path(__file__).parent / "stories"
FLAGS = (
    "--runtime", "sim", "--cities", "DFW,LHR,SEA,OSL,AMS,CDG,FRA", "--sim-nodes", "2", "--store", "memory://",
    "--node-monitor-grace-period", "4s", "--autoscaler-sync-period", "1s",
)  # fmt: skip


@contextmanager
def running_planet(folder: Path) -> Generator[TarmacProcess]:
    """A fresh planet."""
    metrics = folder / "metrics"
    metrics.touch()
    os.environ["METRICS"] = str(metrics)
    with (
        running_prometheus(folder, metrics.read_text) as url,
        TarmacProcess(folder / "data", *FLAGS, "--metrics-url", url, command="up") as planet,
    ):
        yield planet
