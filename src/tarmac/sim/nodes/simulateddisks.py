"""The node's part in local disks: deletes the image of a deleted volume, and expands a disk when its claim has grown.

As on a real node, a dead or cut-off node does neither until it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tarmac.api.compute.names import DISK_FINALIZER, LABEL_DISK_NODE
from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.controller import Controller, RetryAfter
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import VOLUME_CLAIMS, VOLUMES
from tarmac.decide.disks import claims, has_grown
from tarmac.sim.nodes.simulatednode import SimulatedNode

_RETRY_SECONDS = 5.0


class SimDisks:
    """The disks of all nodes. Reconciles by the volume's name."""

    def __init__(self, client: Client, nodes: Mapping[str, SimulatedNode]) -> None:
        self._nodes = nodes
        self._informers = Informers(client)
        self._claims = self._informers.informer(VOLUME_CLAIMS)
        self._volumes = self._informers.informer(VOLUMES)
        self._claim_objects = client.resource(VOLUME_CLAIMS)
        self._volume_objects = client.resource(VOLUMES)
        clock, randomness = client.clock, client.randomness
        self._controller = Controller("simulated-disks", self._serve, clock=clock, randomness=randomness)
        self._controller.watches(self._volumes)
        self._controller.watches(self._claims, lambda item: (item.object["spec"].get("volumeName") or "",))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in (self._informers, self._controller):
                group.create_task(part.run())

    async def _serve(self, name: str) -> RetryAfter | None:
        volume = self._volumes.get(name)
        node = self._nodes.get((volume["metadata"].get("labels") or {}).get(LABEL_DISK_NODE, "")) if volume else None
        if volume is None or node is None:
            return None
        if not node.hears:
            return RetryAfter(_RETRY_SECONDS)
        if "deletionTimestamp" in volume["metadata"]:
            await self._remove(volume)
        else:
            await self._grow(volume)
        return None

    async def _remove(self, volume: JsonObject) -> None:
        metadata = volume["metadata"]
        kept = [each for each in metadata.get("finalizers") or () if each != DISK_FINALIZER]
        if len(kept) < len(metadata.get("finalizers") or ()):
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept or None}}
            await self._volume_objects.patch(metadata["name"], patch)

    async def _grow(self, volume: JsonObject) -> None:
        reference = volume["spec"].get("claimRef") or {"namespace": "", "name": ""}
        claim = self._claims.get(f"{reference['namespace']}/{reference['name']}")
        bound = claim is not None and (claim.get("status") or {}).get("phase") == "Bound"
        if claim is not None and bound and claims(volume, claim) and not has_grown(claim, volume):
            status = {"status": {"capacity": volume["spec"]["capacity"]}}
            await self._claim_objects.patch(reference["name"], status, reference["namespace"], subresource="status")
