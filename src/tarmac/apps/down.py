"""`tarmac down`: stops `tarmac up` in a data directory and removes everything it has created, including the data.

Exit code 0 if nothing is left, also if nothing was there; 1 with a list of the remains.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from tarmac.apps.homekubeconfig import unmerge
from tarmac.apps.layout import Layout, layout_of
from tarmac.apps.lock import holder
from tarmac.apps.processes import end
from tarmac.apps.registry.registrypaths import registries_of
from tarmac.apps.stockcontrollers.supervisor import left_running
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.stderr import print_error

_STOP_TIMEOUT = 30.0
_MADE = (
    "kubeconfig",
    "merged-kubeconfig",
    "recordings",
    "controllers.kubeconfig",
    "pki",
    "secrets.key",
    "cities",
    "registry",
    "kubernetes-controllers",
    "removing",
    "up.lock",
    ".lock",
)
_PATTERNS = ("store.db*", "audit.log*", "tarmac.log*")


def main(options: argparse.Namespace) -> int:
    """Stop, remove, and print the remains."""
    left = asyncio.run(_down(layout_of(options)))
    for what in left:
        print_error(f"{what}: still there")
    return 1 if left else 0


async def _down(layout: Layout) -> list[str]:
    """Return the remains."""
    left = await _stop(layout, SystemClock())
    await end([*registries_of(layout.data_dir), *left_running(layout.data_dir)])  # left by a killed `up`
    if not left and os.geteuid() == 0:
        left = await _remove_cities(layout.data_dir)
    if not left:
        await unmerge(layout, SystemClock())  # before the file that names the changed kubeconfig is removed
    return left or _remove_files(layout)


async def _stop(layout: Layout, clock: Clock) -> list[str]:
    """Send SIGTERM to a running `up`, then SIGKILL, each with a timeout."""
    lock = layout.lock
    if holder(lock) is not None:
        layout.removing.touch()  # before the signal: it would say that its data is kept
    for number in (signal.SIGTERM, signal.SIGKILL):
        if (pid := holder(lock)) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = clock.monotonic() + _STOP_TIMEOUT
        while holder(lock) is not None and clock.monotonic() < deadline:
            await clock.sleep(0.05)
    pid = holder(lock)
    return [] if pid is None else [f"process {pid}, which does not end"]


async def _remove_cities(data_dir: Path) -> list[str]:
    from tarmac.apps.cities.removing import remains, remove_cities, underlay_of
    from tarmac.runtimes.parts import PartMissing, find_parts

    underlay = underlay_of(data_dir)
    if not underlay.cities:
        return []
    try:
        await remove_cities(data_dir, underlay, find_parts())
    except (OSError, PartMissing, RuntimeError) as error:
        return [f"{error}", *remains(data_dir, underlay)]
    return remains(data_dir, underlay)


def _remove_files(layout: Layout) -> list[str]:
    """Remove only files that `up` creates: a directory with other content stays."""
    directory = layout.data_dir
    made = [directory / name for name in _MADE] + [path for each in _PATTERNS for path in directory.glob(each)]
    for path in made:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        directory.rmdir()
    return [str(path) for path in made if path.exists()]
