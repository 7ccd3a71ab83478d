"""What is promised about an agent, as rows."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from pathlib import Path

from benchmarks.nodes import FULL, Idle, Starts, bench, idle, starts
from benchmarks.report import Row

HANDLERS = ("runc", "gvisor")


def node_rows(directory: Path, say: Callable[[str], None]) -> list[Row]:
    """Needs root."""
    found, quiet = asyncio.run(_measure(directory, say))
    rows: list[Row] = []
    for handler, each in found.items():
        rows += [
            Row(f"{handler}: bound to Running, as a watcher sees it", "ms", [1e3 * took for took in each.agent]),
            Row(f"{handler}: the same by raw CRI calls", "ms", [1e3 * took for took in each.raw]),
            Row(f"{handler}: agent over raw calls, p50 of {len(each.agent)}", "ratio", [each.ratio], 1.5),
            Row(f"{handler}: the agent's CPU for a start", "CPU-ms", [1e3 * used for used in each.cpu], 30),
            Row(f"{handler}: of that, to be reached by containerd", "CPU-ms", [1e3 * each.call]),
        ]
    rows.append(Row(f"agent, resident with {FULL} pods", "MB", [quiet.resident_mb], 75))
    rows.append(Row(f"agent, idle with {FULL} pods", "% of a core", [100 * quiet.core], 1))
    return rows


async def _measure(directory: Path, say: Callable[[str], None]) -> tuple[dict[str, Starts], Idle]:
    found: dict[str, Starts] = {}
    async with bench(directory) as made:
        for handler in HANDLERS:
            say(f"starting pods with {handler}, by the agent and by raw calls")
            found[handler] = await starts(made, handler)
            took = statistics.median(found[handler].agent)
            say(f"  {took * 1e3:.0f} ms, {found[handler].ratio:.2f} times the raw calls")
        say(f"leaving {FULL} pods alone for two minutes")
        return found, await idle(made)
