"""Creates the claims of generic ephemeral volumes.

The claim is called `<pod>-<volume>` and is owned by the pod, so that the garbage collector deletes it. A claim of that
name without this owner is never used for the pod: it would expose foreign data to the pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists
from tarmac.client.cache import Item
from tarmac.client.envelope import reference_to, split_key
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.client.targets.untyped import PODS, VOLUME_CLAIMS
from tarmac.controllers.context import ControllerContext

MANAGER = "tarmac-volume"
_MARK = b'"ephemeral":{'  # most pods have none and are not decoded


class EphemeralClaims:
    """Reconciles by the pod's key."""

    def __init__(self, context: ControllerContext) -> None:
        self._recorder = context.recorder
        self._claims = context.client.resource(VOLUME_CLAIMS)
        self._pods = context.informers.informer(PODS)
        self._known = context.informers.informer(VOLUME_CLAIMS)
        self._loop = context.controller("ephemeral-volume", self.reconcile)
        self._loop.watches(self._pods, _with_claims)
        self._loop.watches(self._known, _pod_of)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._loop.run()

    async def reconcile(self, key: str) -> None:
        """Create the missing claims of one pod."""
        item = self._pods.cache.item(key)
        if item is None or item.metadata.deletion_timestamp is not None or _MARK not in item.raw:
            return
        pod = item.object
        if is_terminal(pod):
            return
        for claim in _claims_of(pod, item):
            await self._ensure(claim, item)

    async def _ensure(self, claim: JsonObject, pod: Item[JsonObject]) -> None:
        name = claim["metadata"]["name"]
        present = self._known.cache.item(f"{pod.metadata.namespace}/{name}")
        if present is None:
            try:
                await self._claims.create(claim, manager=MANAGER)
            except AlreadyExists:
                return  # the cache is behind; the existing claim triggers the next pass
        # A foreign claim is never used: it could expose its data to the pod.
        elif present.metadata.controller is None or present.metadata.controller.uid != pod.metadata.uid:
            about = InvolvedObject("v1", "Pod", pod.metadata.name, pod.metadata.namespace, pod.metadata.uid)
            message = f'PersistentVolumeClaim "{name}" was not created for this pod and is not used for it'
            self._recorder.event(about, "Warning", "ConflictingClaim", message)


def _claims_of(pod: JsonObject, item: Item[JsonObject]) -> Iterator[JsonObject]:
    for volume in pod["spec"].get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            stated = template.get("metadata") or {}
            metadata = {
                "name": f"{item.metadata.name}-{volume['name']}",
                "namespace": item.metadata.namespace,
                "labels": stated.get("labels") or {},
                "annotations": stated.get("annotations") or {},
                "ownerReferences": [reference_to("v1", "Pod", item.metadata)],
            }
            yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}


def _with_claims(item: Item[Any]) -> tuple[str, ...]:
    return (item.key,) if _MARK in item.raw else ()


def _pod_of(item: Item[Any]) -> tuple[str, ...]:
    owner = item.metadata.controller
    if owner is None or owner.kind != "Pod":
        return ()
    namespace, _ = split_key(item.key)
    return (f"{namespace}/{owner.name}",)
