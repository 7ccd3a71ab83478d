"""Volumes of pods, and the node selected for each new one.

An unbound claim gets its volume on its pod's node: the first pod that uses the claim selects the node, which is written
to the claim before the pod is bound.
"""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import VOLUME_CLAIMS, VOLUMES
from tarmac.decide.scheduling import Disk
from tarmac.decide.scheduling.claims import SELECTED_NODE, claim_names, disks_of
from tarmac.decide.verdict import Verdict


class SchedulerDisks:
    """Claims and volumes, as the scheduler sees them."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._resource = client.resource(VOLUME_CLAIMS)
        self.claims = informers.informer(VOLUME_CLAIMS)
        self.volumes = informers.informer(VOLUMES)

    def of(self, pod: JsonObject) -> Verdict[tuple[Disk, ...]]:
        """Return the disks of a pod that already have a node; a refusal when one is unavailable."""
        return disks_of(pod, self.claims.get, self.volumes.get)

    def unplaced(self, pod: JsonObject) -> tuple[str, ...]:
        """Return the claims of a pod without a selected node."""
        namespace = pod["metadata"]["namespace"]
        claims = ((name, self.claims.get(f"{namespace}/{name}")) for name in claim_names(pod))
        return tuple(name for name, claim in claims if claim and _is_open(claim))

    async def place(self, namespace: str, name: str, node: str) -> None:
        """Write the selected node to a claim."""
        await self._resource.patch(name, {"metadata": {"annotations": {SELECTED_NODE: node}}}, namespace)


def _is_open(claim: JsonObject) -> bool:
    annotations: JsonObject = claim["metadata"].get("annotations") or {}
    return not claim["spec"].get("volumeName") and SELECTED_NODE not in annotations
