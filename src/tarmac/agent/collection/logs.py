"""Log rotation: an oversized log is renamed, compressed at the next rotation, and finally removed.

    0.log                        the log the runtime writes to
    0.log.20261115-120000        rotated last; readers that follow it reach its end
    0.log.20261115-110000.gz     older ones

A log is renamed and the runtime asked to reopen it; if that fails, the rename is undone, so that no line is lost. Only
logs of running containers are rotated. Sizes are checked first: the runtime is asked about a container only when its
log is too large.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.log import log
from tarmac.runtimes.interface import Runtime, RuntimeFault

_CURRENT = re.compile(r"([0-9]+)\.log")
_log = log("collection")


class LogRotation:
    """Limits the logs below `folder`."""

    def __init__(self, runtime: Runtime, folder: Path, kubelet: KubeletConfiguration, clock: Clock) -> None:
        self._runtime = runtime
        self._folder = folder
        self._max_size = kubelet.container_log_max_size
        self._files = kubelet.container_log_max_files
        self._interval = kubelet.container_log_monitor_interval
        self._clock = clock

    async def run(self) -> None:
        """Check sizes periodically until cancelled."""
        while True:
            await self._clock.sleep(self._interval)
            await self.rotate()

    async def rotate(self) -> None:
        """Rotate all oversized logs."""
        # A list: a rotation renames files in the folders that the generator walks.
        for file in list(oversized(self._folder, self._max_size)):
            try:
                await self._rotate(file)
            except (OSError, RuntimeFault) as error:
                _log.warning("log cannot be rotated, will retry", file=str(file), why=str(error))

    async def _rotate(self, file: Path) -> None:
        pod, container = file.parent.parent.name, file.parent.name
        attempt = int(file.name.partition(".")[0])
        running = [
            each.id
            for each in await self._runtime.containers(pod.rpartition("_")[2])
            if each.name == container and each.attempt == attempt and each.state == "running"
        ]
        if not running:
            return
        # Before the rename: a crash between them leaves one file too few, never one too many.
        await self._tidy(file)
        stamp = rfc3339(self._clock.now()).replace("-", "").replace("T", "-").replace(":", "").removesuffix("Z")
        aside = file.with_name(f"{file.name}.{stamp}")
        # From here to `reopen_log` the runtime writes to the renamed file: nothing is lost, it only grows past the
        # limit.
        file.rename(aside)
        try:
            await self._runtime.reopen_log(running[0])
        except RuntimeFault:
            # The runtime may have reopened the log before it failed: renaming back would overwrite the new one.
            if not file.exists():
                aside.rename(file)
            raise

    async def _tidy(self, file: Path) -> None:
        """Compress rotated logs and remove old ones, leaving room for the current and the next one."""
        aside = sorted(each for each in file.parent.glob(f"{file.name}.*") if not each.name.endswith(".tmp"))
        for old in aside[: max(0, len(aside) - (self._files - 2))]:
            old.unlink(missing_ok=True)
        for old in aside[max(0, len(aside) - (self._files - 2)) :]:
            if not old.name.endswith(".gz"):
                await asyncio.to_thread(compress, old)


def oversized(folder: Path, most: int) -> Iterator[Path]:
    """Yield current logs larger than `most` bytes, two directories below."""
    for pod in _folders(folder):
        for container in _folders(pod):
            with suppress(OSError), os.scandir(container) as entries:
                for entry in entries:
                    if _CURRENT.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_size > most:
                        yield Path(entry.path)


def compress(file: Path) -> None:
    """Replace a file atomically by its compressed form."""
    import gzip

    # Left by a kill, it is overwritten by the next compression, and never counts as a log.
    partial = file.with_name(f"{file.name}.tmp")
    with file.open("rb") as source, gzip.open(partial, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    partial.chmod(file.stat().st_mode & 0o777)
    # The compressed file is complete before it gets its name; a kill before `unlink` leaves both, which costs only
    # space.
    partial.rename(file.with_name(f"{file.name}.gz"))
    file.unlink()


def _folders(folder: Path | str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
