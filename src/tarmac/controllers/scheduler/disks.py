"""Where the disks of a pod are, and therefore where the pod can go.

A claim that is bound ties the pod to the nodes that reach its volume. One that is not is made where the pod goes: the
first pod that uses it chooses, and says so on the claim before it is bound itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.client.targets import VOLUME_CLAIMS, VOLUMES
from tarmac.decide import reasons
from tarmac.decide.scheduling import Disk, any_of
from tarmac.decide.verdict import Refusal, Verdict

SELECTED_NODE = "volume.kubernetes.io/selected-node"


def claim_names(pod: JsonObject) -> Iterator[str]:
    """The claims that a pod uses, by name."""
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}"


class Disks:
    """Claims and volumes as they are now."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._resource = client.resource(VOLUME_CLAIMS)
        self.claims = informers.informer(VOLUME_CLAIMS)
        self.volumes = informers.informer(VOLUMES)

    def of(self, pod: JsonObject) -> Verdict[tuple[Disk, ...]]:
        """The disks of a pod that are somewhere already; a "no" when one cannot be had."""
        found: list[Disk] = []
        for name in claim_names(pod):
            claim = self.claims.get(f"{pod['metadata']['namespace']}/{name}")
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                state = "does not exist" if claim is None else "is being deleted"
                message = f"PersistentVolumeClaim {name} {state}."
                change = f"Create PersistentVolumeClaim {name}."
                return Verdict(None, (Refusal(reasons.SOURCE_NOT_FOUND, message, name, "disks", change),))
            terms = self._terms(claim)
            if terms is not None:
                found.append(Disk(name, any_of(terms)))
        return Verdict(tuple(found))

    def unplaced(self, pod: JsonObject) -> tuple[str, ...]:
        """The claims of a pod that nobody has chosen a node for."""
        namespace = pod["metadata"]["namespace"]
        claims = ((name, self.claims.get(f"{namespace}/{name}")) for name in claim_names(pod))
        return tuple(name for name, claim in claims if claim and _is_open(claim))

    async def place(self, namespace: str, name: str, node: str) -> None:
        """Say on a claim where its disk is to be made."""
        await self._resource.patch(name, {"metadata": {"annotations": {SELECTED_NODE: node}}}, namespace)

    def _terms(self, claim: JsonObject) -> list[Any] | None:
        """The nodes that reach the claim's disk, as node selector terms; None when that is open."""
        volume_name = claim["spec"].get("volumeName")
        if volume_name:
            volume = self.volumes.get(volume_name) or {}
            affinity = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
            return affinity["nodeSelectorTerms"] if affinity else None
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        named = {"key": "metadata.name", "operator": "In", "values": [node]}
        return [{"matchFields": [named]}] if node else None


def _is_open(claim: JsonObject) -> bool:
    annotations: JsonObject = claim["metadata"].get("annotations") or {}
    return not claim["spec"].get("volumeName") and SELECTED_NODE not in annotations
