"""Local disks of simulated nodes: a claim that was given a node gets a volume there; a volume without its claim goes.

As on a real node, the volume can be used only where it is. A node that is dead or cut off makes none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists
from tarmac.client.client import Client
from tarmac.client.controller import Controller, RetryAfter
from tarmac.client.informer import Informers
from tarmac.client.targets import VOLUME_CLAIMS, VOLUMES
from tarmac.decide.scheduling.claims import SELECTED_NODE
from tarmac.sim.nodes.simulatednode import SimulatedNode

PROVISIONER = "sim.tarmac/disks"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_LATER = 5.0


class Disks:
    """The disks of all nodes."""

    def __init__(self, client: Client, nodes: Mapping[str, SimulatedNode]) -> None:
        self._nodes = nodes
        self._informers = Informers(client)
        self._claims = self._informers.informer(VOLUME_CLAIMS)
        self._volumes = self._informers.informer(VOLUMES)
        self._claim_objects = client.resource(VOLUME_CLAIMS)
        self._volume_objects = client.resource(VOLUMES)
        clock, randomness = client.clock, client.randomness
        self._making = Controller("simulated-disks", self._provide, clock=clock, randomness=randomness)
        self._making.watches(self._claims)
        self._removing = Controller("simulated-disks-left", self._remove, clock=clock, randomness=randomness)
        self._removing.watches(self._volumes)
        self._removing.watches(self._claims, lambda item: (_volume_name(item.metadata.uid),))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in (self._informers, self._making, self._removing):
                group.create_task(part.run())

    async def _provide(self, key: str) -> RetryAfter | None:
        """Make the volume of a claim whose node is chosen, and bind the two."""
        claim = self._claims.get(key)
        if claim is None or _is_over(claim):
            return None
        node = self._nodes.get((claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, ""))
        if node is None:
            return None
        if not node.hears:
            return RetryAfter(_LATER)
        volume = _volume(claim, node.name)
        with suppress(AlreadyExists):  # made by an attempt whose answer was lost
            await self._volume_objects.create(volume)
        await self._bind(claim, volume)
        return None

    async def _bind(self, claim: JsonObject, volume: JsonObject) -> None:
        metadata, name = claim["metadata"], volume["metadata"]["name"]
        bound = {"metadata": {"annotations": {_BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name}}
        await self._claim_objects.patch(metadata["name"], bound, metadata["namespace"])
        await self._volume_objects.patch(name, {"status": {"phase": "Bound"}}, subresource="status")
        spec = volume["spec"]
        status = {"phase": "Bound", "capacity": spec["capacity"], "accessModes": spec["accessModes"]}
        await self._claim_objects.patch(
            metadata["name"], {"status": status}, metadata["namespace"], subresource="status"
        )

    async def _remove(self, name: str) -> None:
        """Remove a volume of ours whose claim is gone."""
        volume = self._volumes.get(name)
        if volume is None or (volume["metadata"].get("annotations") or {}).get(_PROVISIONED_BY) != PROVISIONER:
            return
        reference = volume["spec"]["claimRef"]
        claim = self._claims.get(f"{reference['namespace']}/{reference['name']}")
        claimed = claim is not None and claim["metadata"]["uid"] == reference["uid"]
        if not claimed and "deletionTimestamp" not in volume["metadata"]:
            await self._volume_objects.delete(name, uid=volume["metadata"]["uid"])


def _is_over(claim: JsonObject) -> bool:
    return "deletionTimestamp" in claim["metadata"] or (claim.get("status") or {}).get("phase") == "Bound"


def _volume_name(claim_uid: str) -> str:
    return f"pvc-{claim_uid}"


def _volume(claim: JsonObject, node: str) -> JsonObject:
    metadata, spec = claim["metadata"], claim["spec"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": _volume_name(metadata["uid"]), "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.get("storageClassName") or "",
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": f"/simulated/{metadata['uid']}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
