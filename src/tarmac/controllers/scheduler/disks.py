"""The disks of pods as they are now, and the node each new one is made on.

A claim without a volume is made where its pod goes: the first pod that uses it chooses, and says so on the claim before
it is bound itself.
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
    """Claims and volumes."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._resource = client.resource(VOLUME_CLAIMS)
        self.claims = informers.informer(VOLUME_CLAIMS)
        self.volumes = informers.informer(VOLUMES)

    def of(self, pod: JsonObject) -> Verdict[tuple[Disk, ...]]:
        """The disks of a pod that are somewhere already; a "no" when one cannot be had."""
        return disks_of(pod, self.claims.get, self.volumes.get)

    def unplaced(self, pod: JsonObject) -> tuple[str, ...]:
        """The claims of a pod that nobody has chosen a node for."""
        namespace = pod["metadata"]["namespace"]
        claims = ((name, self.claims.get(f"{namespace}/{name}")) for name in claim_names(pod))
        return tuple(name for name, claim in claims if claim and _is_open(claim))

    async def place(self, namespace: str, name: str, node: str) -> None:
        """Say on a claim where its disk is to be made."""
        await self._resource.patch(name, {"metadata": {"annotations": {SELECTED_NODE: node}}}, namespace)


def _is_open(claim: JsonObject) -> bool:
    annotations: JsonObject = claim["metadata"].get("annotations") or {}
    return not claim["spec"].get("volumeName") and SELECTED_NODE not in annotations
