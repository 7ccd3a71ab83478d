"""Runs the volume controllers: local disks, ephemeral claims, and protection of objects in use."""

from __future__ import annotations

import asyncio

from tarmac.controllers.context import ControllerContext
from tarmac.controllers.volume.ephemeral import EphemeralClaims
from tarmac.controllers.volume.localdisks import LocalDiskController
from tarmac.controllers.volume.protection import VolumeProtection


class VolumeControllers:
    """Creates disks, and deletes them when they are no longer used."""

    def __init__(self, context: ControllerContext) -> None:
        self._parts = (LocalDiskController(context), EphemeralClaims(context), VolumeProtection(context))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())
