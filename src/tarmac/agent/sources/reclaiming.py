"""Removing the disks of PersistentVolumes that have been deleted.

A volume that is deleted takes its data with it, on the node that has it, whenever that node is up. A server that was
restored from an older state would miss newer volumes too: so the same answer has to come several times over a while,
and every removal is logged. Where the node is not allowed to ask, disks stay.
"""

from __future__ import annotations

from tarmac.api.status import ApiError, NotFound
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets import VOLUMES
from tarmac.volumes.interface import VolumeError, Volumes

PERIOD = 30.0
ANSWERS = 3

_log = log("disks")


class DiskReclaim:
    """Looks at every disk of the node now and then."""

    def __init__(self, client: Client, volumes: Volumes) -> None:
        self._client = client
        self._volumes = volumes
        self._missing: dict[str, int] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await self._client.clock.sleep(PERIOD)

    async def look(self) -> None:
        """Ask for the volume of every disk once."""
        disks = await self._volumes.disks()
        self._missing = {name: count for name, count in self._missing.items() if name in disks}
        for name in disks:
            if await self._is_missing(name):
                self._missing[name] = self._missing.get(name, 0) + 1
                if self._missing[name] >= ANSWERS:
                    await self._remove(name)
            else:
                self._missing.pop(name, None)

    async def _is_missing(self, name: str) -> bool:
        try:
            await self._client.resource(VOLUMES).get(name)
        except NotFound:
            return True
        except (ApiError, ClientError) as error:
            _log.debug("cannot tell whether a disk is still wanted", disk=name, why=str(error))
        return False

    async def _remove(self, name: str) -> None:
        try:
            await self._volumes.remove_disk(name)
        except VolumeError as error:
            _log.info("a disk whose volume is deleted is still in use", disk=name, why=str(error))
        else:
            _log.info("removed the disk of a deleted volume", disk=name)
