"""Removes logs and cgroups of removed pods. Their volumes and directories belong to the pod loop."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.runtimes.interface import Runtime, RuntimeFault

INTERVAL: Final = 60.0
_log = log("collection")


class OrphanCollector:
    """Sweeps logs and cgroups of pods that are neither bound here nor known to the runtime.

    `pods` must only be called once all pods are known: `run` starts after that.
    """

    def __init__(
        self,
        runtime: Runtime,
        cgroups: KubePods,
        logs: Path,
        pods: Callable[[], Sequence[JsonObject]],
        clock: Clock,
    ) -> None:
        self._runtime = runtime
        self._cgroups = cgroups
        self._logs = logs
        self._pods = pods
        self._clock = clock
        self._suspects: set[str] = set()

    async def run(self) -> None:
        """Sweep every minute until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL)
            try:
                await self.sweep()
            except RuntimeFault as error:
                _log.warning("orphan sweep failed, will retry", why=str(error))

    async def sweep(self) -> None:
        """Remove orphans seen in two consecutive sweeps: a pod may be about to start. Raises RuntimeFault."""
        live = {pod["metadata"]["uid"] for pod in self._pods()}
        # Cgroups and logs are listed after this await: those of a pod bound meanwhile are suspects once, and live in
        # the next sweep.
        live |= {sandbox.pod.uid for sandbox in await self._runtime.sandboxes()}
        folders = {name.rpartition("_")[2]: name for name in _names(self._logs) if name.count("_") == 2}
        ownerless = (self._cgroups.uids() | folders.keys()) - live
        orphans, self._suspects = ownerless & self._suspects, ownerless
        if not orphans:
            return
        # The uids are read again: cgroups made since the list are kept.
        await self._cgroups.sweep(self._cgroups.uids() - orphans)
        for uid in sorted(orphans & folders.keys()):
            _log.info("logs of a removed pod deleted", pod=uid)
            await asyncio.to_thread(shutil.rmtree, self._logs / folders[uid], ignore_errors=True)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
