"""Keeps the device nodes of GPUs open between samples, as nvidia-persistenced does.

The driver shuts a GPU down when the last program closes it. Every sample would initialize it again, for seconds, and
the first container would wait for the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tarmac.agent.devices.nvidia.kerneldriver import Gpu, host_path


class HeldNodes:
    """Open device nodes by UUID."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[str, tuple[str, int]] = {}

    def hold(self, gpus: Iterable[Gpu]) -> None:
        """Hold these GPUs and no other one: one that is to be reset, or unplugged, must not be in use."""
        wanted = {gpu.uuid: gpu.node for gpu in gpus}
        for uuid, (node, file) in list(self._open.items()):
            if wanted.get(uuid) != node:
                os.close(file)
                del self._open[uuid]
        for uuid in wanted.keys() - self._open.keys():
            # A node that cannot be opened costs time only, and is tried again. O_NONBLOCK: the driver initializes the
            # GPU on its own thread.
            with suppress(OSError):
                path = host_path(self._root, wanted[uuid])
                self._open[uuid] = wanted[uuid], os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Hold none."""
        self.hold(())
