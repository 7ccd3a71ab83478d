"""Promises about virtual machines, as rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from benchmarks import machines
from benchmarks.machines import GUESTS, IDLE
from benchmarks.machinetraffic import traffic
from benchmarks.nodes import Bench, bench
from benchmarks.report import Row
from tarmac.client.kubeconfig import load
from tarmac.client.targets.typed import MACHINE_IMAGES
from tarmac.runtimes.parts import PartMissing, find_machine_parts
from tests.support.guestimages import machine_image, more_images

Say = Callable[[str], None]


def machine_rows(directory: Path, repeat: int, say: Say) -> list[Row]:
    """Needs root and QEMU; without them it reports so."""
    try:
        find_machine_parts()
    except PartMissing as missing:
        say(f"NOT MEASURED: virtual machines: {missing}")
        return []
    return asyncio.run(_measure(directory, repeat, say))


async def _measure(directory: Path, repeat: int, say: Say) -> list[Row]:
    rows: list[Row] = []
    directory.mkdir()
    with more_images(directory / "parts", GUESTS):
        async with bench(directory / "city") as made:
            async with asyncio.timeout(120):
                await machines.offered(made)
            for file, content in GUESTS.items():
                image = machine_image(f"bench-{Path(file).stem}", file, content)
                await made.client.resource(MACHINE_IMAGES.typed(dict)).create(image)
            rows += await _of_echo(made, directory, say)
            rows += await _of_rest(made, say)
            rows += await _of_traffic(made, directory, say)
            rows += await _of_starts(made, directory, 2 * repeat, say)
    say(f"adopting {IDLE} machines, flooding a console, and copying an image")
    rows.append(Row(f"{IDLE} machines adopted, monitors included", "s", await machines.adoption(repeat), 1))
    alone, watched = await machines.flood(2 * repeat)
    kept = machines.median_ratio(watched, alone)
    rows.append(Row("a guest that floods its serial port, no watcher", "kB/s", [each / 1e3 for each in alone]))
    rows.append(Row("the same with a stuck watcher, over no watcher", "ratio", [kept], 0.9, at_least=True))
    ours, theirs = machines.copies(directory, repeat)
    ratio = [machines.median_ratio(ours, theirs)]
    return [
        *rows,
        Row("boot disk from an image of 500 MB, synced", "s", ours),
        Row("the same by cp --sparse=always", "s", theirs),
        Row("boot disk over cp", "ratio", ratio, 1.3),
    ]


async def _of_echo(made: Bench, directory: Path, say: Say) -> list[Row]:
    say("typing at a console")
    http = load(str(_kubeconfig(directory))).http
    return [Row("console: from a key to the watcher, p50", "ms", _ms(await machines.console_echo(made, http)), 50)]


async def _of_rest(made: Bench, say: Say) -> list[Row]:
    say(f"leaving {IDLE} machines alone")
    found = await machines.idle_machines(made)
    return [
        Row(f"agent, more resident with {IDLE} idle machines", "MB", [found.resident_mb], 12),
        Row(f"agent, more of a core with {IDLE} idle machines", "% of a core", [100 * found.core], 0.5),
    ]


async def _of_starts(made: Bench, directory: Path, count: int, say: Say) -> list[Row]:
    say(f"starting {count} machines by the agent and {2 * count} by hand")
    found = await machines.machine_starts(made, directory, count)
    mb = [[each / 1e6 for each in sizes] for sizes in (found.resident, found.bare)]
    return [
        Row("machine: applied to Ready, its image present", "s", found.agent),
        Row("the same QEMU by hand until its port answers", "s", found.hand),
        Row("machine over QEMU by hand", "ratio", [machines.median_ratio(found.agent, found.hand)], 1.2),
        Row("machine: the agent's CPU for a start, over idle", "CPU-ms", _ms(found.cpu), 60),
        Row("machine: its process, resident", "MB", mb[0]),
        Row("bare QEMU with the same memory, no VNC", "MB", mb[1]),
        Row("machine over bare QEMU, resident", "ratio", [machines.median_ratio(*mb)], 1.15),
    ]


async def _of_traffic(made: Bench, directory: Path, say: Say) -> list[Row]:
    say("fetching from a sandbox, by a guest and by another sandbox")
    guest, sandbox = await traffic(made, _kubeconfig(directory))
    return [
        Row("guest from a sandbox of its node, TCP", "MB/s", [guest.rate]),
        Row("sandbox from a sandbox of its node, TCP", "MB/s", [sandbox.rate]),
        Row("guest to a sandbox of its node and back", "ms", [guest.round_trip]),
        Row("sandbox to a sandbox of its node and back", "ms", [sandbox.round_trip]),
    ]


def _kubeconfig(directory: Path) -> Path:
    return directory / "city" / "node" / "kubeconfig"


def _ms(seconds: list[float]) -> list[float]:
    return [1e3 * each for each in seconds]
