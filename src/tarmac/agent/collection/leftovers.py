"""Logs and cgroups of pods that are gone. Their volumes and their own folders are the pod loop's business."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tarmac.agent.cgroups.pods import KubePods
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.runtimes.interface import Runtime, RuntimeFault

EVERY: Final = 60.0
_log = log("collection")


class Leftovers:
    """Sweeps what belongs to no pod that is bound here or that the runtime still knows.

    `pods` must only be asked once all pods are known: `run` starts after that.
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
            await self._clock.sleep(EVERY)
            try:
                await self.sweep()
            except RuntimeFault as error:
                _log.warning("leftovers are not swept", why=str(error))

    async def sweep(self) -> None:
        """Remove what was ownerless at the last sweep and still is: a pod may be just coming. Raises RuntimeFault."""
        live = {pod["metadata"]["uid"] for pod in self._pods()}
        live |= {sandbox.pod.uid for sandbox in await self._runtime.sandboxes()}
        folders = {name.rpartition("_")[2]: name for name in _names(self._logs) if name.count("_") == 2}
        ownerless = (self._cgroups.uids() | folders.keys()) - live
        doomed, self._suspects = ownerless & self._suspects, ownerless
        if not doomed:
            return
        await self._cgroups.sweep(self._cgroups.uids() - doomed)
        for uid in sorted(doomed & folders.keys()):
            _log.info("logs of a pod that is gone are removed", pod=uid)
            await asyncio.to_thread(shutil.rmtree, self._logs / folders[uid], ignore_errors=True)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
