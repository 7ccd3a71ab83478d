"""Promises about an agent, as rows: of a plain node, and of one with all features."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from pathlib import Path

from benchmarks.fullnode import IN_A_CLASS, OWN_PROCESSOR, everything
from benchmarks.nodes import FULL, Bench, Idle, Starts, bench, idle, starts, starts_in_turns
from benchmarks.report import Row

HANDLERS = ("runc", "gvisor")
_CPU_OF_A_START, _MORE_FOR_WHO_ASKS = 30.0, 5.0  # milliseconds
Say = Callable[[str], None]


def node_rows(directory: Path, say: Say) -> list[Row]:
    """Needs root."""
    return asyncio.run(_measure(directory, say))


async def _measure(directory: Path, say: Say) -> list[Row]:
    rows: list[Row] = []
    async with bench(directory / "plain") as made:
        for handler in HANDLERS:
            rows += _of_starts(handler, await _starts(made, handler, say))
        rows += _of_rest("agent", await _idle(made, say))
    async with bench(directory / "full", *everything(directory / "settings")) as made:
        rows += await _with_everything(made, say)
    return rows


async def _with_everything(made: Bench, say: Say) -> list[Row]:
    rows = _of_starts("everything on, runc", await _starts(made, "runc", say))
    say("starting pods in a class and with a processor of their own")
    kinds = {"no class": {}, "a class": IN_A_CLASS, "its own processor": OWN_PROCESSOR}
    for kind, found in (await starts_in_turns(made, "runc", kinds)).items():
        used = [1e3 * each for each in found.cpu]
        promise = _CPU_OF_A_START + (0 if kind == "no class" else _MORE_FOR_WHO_ASKS)
        rows.append(Row(f"everything on, {kind}: the agent's CPU for a start", "CPU-ms", used, promise))
    return rows + _of_rest("everything on: agent", await _idle(made, say))


async def _starts(made: Bench, handler: str, say: Say) -> Starts:
    say(f"starting pods with {handler}, by the agent and by raw calls")
    found = await starts(made, handler)
    say(f"  {statistics.median(found.agent) * 1e3:.0f} ms, {found.ratio:.2f} times the raw calls")
    return found


async def _idle(made: Bench, say: Say) -> Idle:
    say(f"leaving {FULL} pods alone for two minutes")
    return await idle(made)


def _of_starts(title: str, found: Starts) -> list[Row]:
    used = [1e3 * each for each in found.cpu]
    return [
        Row(f"{title}: bound to Running, as a watcher sees it", "ms", [1e3 * took for took in found.agent]),
        Row(f"{title}: the same by raw CRI calls", "ms", [1e3 * took for took in found.raw]),
        Row(f"{title}: agent over raw calls, p50 of {len(found.agent)}", "ratio", [found.ratio], 1.5),
        Row(f"{title}: the agent's CPU for a start", "CPU-ms", used, _CPU_OF_A_START),
        Row(f"{title}: of that, to be reached by containerd", "CPU-ms", [1e3 * found.call]),
    ]


def _of_rest(title: str, quiet: Idle) -> list[Row]:
    return [
        Row(f"{title}, resident with {FULL} pods", "MB", [quiet.resident_mb], 75),
        Row(f"{title}, idle with {FULL} pods", "% of a core", [100 * quiet.core], 1),
    ]
