"""Releases a deleted claim when no pod uses it, and a deleted volume when no claim is bound to it.

Admission adds the finalizers; this controller removes them. A pod counts once it is bound to a node: an unbound pod
cannot start any more with a claim that is being deleted.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tarmac.api.partial import Partial
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.envelope import EnvelopeMetadata, split_key
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import PODS, VOLUME_CLAIMS, VOLUMES
from tarmac.controllers.context import ControllerContext

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
BY_CLAIM = "claim"


class _ClaimSource(Partial):
    claim_name: str = ""


class _Volume(Partial):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class _PodSpec(Partial):
    node_name: str = ""
    volumes: list[_Volume] = msgspec.field(default_factory=list[_Volume])


class VolumeUser(Partial):
    """A pod: the fields that matter for volumes."""

    metadata: EnvelopeMetadata
    spec: _PodSpec


def claims_of(pod: VolumeUser) -> list[str]:
    """Return the keys of the claims that a bound pod uses."""
    if not pod.spec.node_name:
        return []
    names: list[str] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return [f"{pod.metadata.namespace}/{name}" for name in names]


_read = msgspec.json.Decoder(VolumeUser).decode


def _claims_of_item(item: Item[Any]) -> list[str]:
    """Index: pods by claim. Most pods have no claims, which a search in the encoded text shows without decoding."""
    raw = item.raw
    return claims_of(_read(raw)) if b'"persistentVolumeClaim":' in raw or b'"ephemeral":' in raw else []


class VolumeProtection:
    """Two loops: claims by key, volumes by name."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._pods = context.informers.informer(PODS)
        self._pods.add_index(BY_CLAIM, _claims_of_item)
        self._claims = context.informers.informer(VOLUME_CLAIMS)
        self._volumes = context.informers.informer(VOLUMES)
        self._claim_loop = context.controller("pvc-protection", self.reconcile_claim)
        self._claim_loop.watches(self._claims)
        self._claim_loop.watches(self._pods, _claims_of_item)
        self._volume_loop = context.controller("pv-protection", self.reconcile_volume)
        self._volume_loop.watches(self._volumes)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claim_loop.run())
            group.create_task(self._volume_loop.run())

    async def reconcile_claim(self, key: str) -> None:
        """Release a deleted claim when no pod uses it. The server is asked, since the cache may be behind."""
        item = self._claims.cache.item(key)
        if item is None or not _held(item, CLAIM_FINALIZER) or self._pods.indexed(BY_CLAIM, key):
            return
        namespace, _ = split_key(key)
        # A pod bound a moment ago may be missing in the cache. Released now, its disk would be deleted under it.
        async for page in self._client.resource(PODS.typed(VolumeUser)).pages(namespace):
            if any(key in claims_of(pod) for pod in page.items):
                return
        await _release(self._client, VOLUME_CLAIMS, item, CLAIM_FINALIZER)

    async def reconcile_volume(self, name: str) -> None:
        """Release a deleted volume when it is not bound."""
        item = self._volumes.cache.item(name)
        if item is None or not _held(item, VOLUME_FINALIZER):
            return
        if (item.object.get("status") or {}).get("phase") != "Bound":
            await _release(self._client, VOLUMES, item, VOLUME_FINALIZER)


def _held(item: Item[Any], finalizer: str) -> bool:
    return item.metadata.deletion_timestamp is not None and finalizer in (item.metadata.finalizers or ())


async def _release(client: Client, target: Target[Any], item: Item[Any], finalizer: str) -> None:
    metadata = item.metadata
    kept = [each for each in metadata.finalizers or () if each != finalizer]
    patch = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": kept or None}}
    await client.resource(target).patch(metadata.name, patch, metadata.namespace)
