"""Implements the `ObjectSources` of volumes, variables and pull secrets over the API, with a node's permissions.

ConfigMaps and Secrets come from watches of exactly the objects that pods here refer to. Claims and their volumes, which
a node may only get individually, are requested each time; the last response is kept for when the server is unreachable.
Nothing is written to disk or to a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from tarmac.agent.sources.podtokens import PodTokens
from tarmac.agent.sources.references import PodObjectReference
from tarmac.agent.sources.watched import WatchedObjects
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import CONFIG_MAPS, SECRETS, VOLUME_CLAIMS, VOLUMES
from tarmac.volumes.interface import SourceUnavailable

SYNC_TIMEOUT = 1.0
MAX_CACHED = 500
_RESIZE_PENDING = ("FileSystemResizePending", "Resizing")

_decode = msgspec.json.Decoder(dict).decode


class ApiSources:
    """Implements `tarmac.volumes.interface.ObjectSources`.

    `changed` is called with the uid of a pod when an object that it refers to was created, changed or deleted.

    Start `run`; call `follow` with every new or changed pod of the node, `unfollow` when it is gone.
    """

    def __init__(self, client: Client, changed: Callable[[str], None] = lambda _uid: None) -> None:
        self._client = client
        self._watched = WatchedObjects(client, changed)
        self._tokens = PodTokens(client)
        self._last: dict[tuple[str, str, str], JsonObject] = {}

    async def run(self) -> None:
        """Watch the referenced objects until cancelled."""
        await self._watched.run()

    def follow(self, pod: JsonObject) -> None:
        """Watch the references of a pod of this node."""
        self._watched.follow(pod)

    def unfollow(self, pod_uid: str) -> None:
        """Stop watching for a removed pod and drop its tokens."""
        self._watched.unfollow(pod_uid)
        self._tokens.forget(pod_uid)

    async def config_map(self, namespace: str, name: str) -> JsonObject | None:
        """Return the ConfigMap, or None."""
        return await self._referenced(PodObjectReference(CONFIG_MAPS.plural, namespace, name))

    async def secret(self, namespace: str, name: str) -> JsonObject | None:
        """Return the Secret, or None."""
        return await self._referenced(PodObjectReference(SECRETS.plural, namespace, name))

    async def claim(self, namespace: str, name: str) -> JsonObject | None:
        """Return the claim, or None."""
        return await self._get(VOLUME_CLAIMS, namespace, name)

    async def persistent_volume(self, name: str) -> JsonObject | None:
        """Return the volume, or None."""
        return await self._get(VOLUMES, "", name)

    async def token(self, pod: JsonObject, audience: str, seconds: int) -> tuple[str, float]:
        """Return a token of the pod's service account."""
        return await self._tokens.get(pod, audience, seconds)

    async def resized(self, claim: JsonObject, capacity: str) -> None:
        """Write the claim's new size to its status and clear the pending conditions."""
        metadata = claim["metadata"]
        conditions = (claim.get("status") or {}).get("conditions") or ()
        kept = [each for each in conditions if each.get("type") not in _RESIZE_PENDING]
        status = {"capacity": {"storage": capacity}, "conditions": kept or None}
        claims = self._client.resource(VOLUME_CLAIMS)
        try:
            await claims.patch(metadata["name"], {"status": status}, metadata["namespace"], subresource="status")
        except (ApiError, ClientError) as error:
            raise SourceUnavailable(str(error)) from error

    async def _referenced(self, reference: PodObjectReference) -> JsonObject | None:
        """Read from the watch; request the object if the watch does not exist or has no result in time."""
        watched = self._watched.get(reference)
        if watched is not None:
            if not watched.known.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(watched.known.wait(), SYNC_TIMEOUT)
            if watched.known.is_set():
                return None if watched.raw is None else _decode(watched.raw)
        try:
            return await self._client.resource(reference.target).get(reference.name, reference.namespace)
        except NotFound:
            return None
        except (ApiError, ClientError) as error:
            raise SourceUnavailable(str(error)) from error

    async def _get(self, target: Target[JsonObject], namespace: str, name: str) -> JsonObject | None:
        key = (target.plural, namespace, name)
        try:
            found = await self._client.resource(target).get(name, namespace)
        except NotFound:
            self._last.pop(key, None)
            return None
        except (ApiError, ClientError) as error:
            # The server is unreachable: a claim that was bound stays usable, or running pods could not be restarted.
            if key in self._last:
                return self._last[key]
            raise SourceUnavailable(str(error)) from error
        self._last.pop(key, None)  # the least recently requested is evicted first
        if len(self._last) >= MAX_CACHED:
            del self._last[next(iter(self._last))]
        self._last[key] = found
        return found
