"""The taps of this node's machines, for the driver that runs them: the counterpart of `attaching`."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from tarmac.agent.network.attaching import InterfaceAttacher
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.interface import Datapath
from tarmac.runtimes.interface import PodIdentity


class MachineTaps:
    """Implements `tarmac.runtimes.qemu.dependencies.Taps`."""

    def __init__(self, datapath: Datapath, interfaces: InterfaceAttacher) -> None:
        self._datapath = datapath
        self._interfaces = interfaces

    async def attach(self, sandbox_id: str, pod: PodIdentity) -> Sequence[AttachedInterface]:
        return await self._interfaces.attach_taps(sandbox_id, pod)

    async def open(self, sandbox_id: str, position: int, *, further: bool = False) -> io.FileIO:
        return await self._datapath.open_tap(sandbox_id, position, further=further)

    async def detach(self, sandbox_id: str) -> None:
        await self._datapath.detach(sandbox_id)

    async def traffic(self) -> Mapping[str, tuple[int, int]]:
        found = await self._datapath.traffic()
        return {sandbox: (each.received, each.transmitted) for sandbox, each in found.items()}
