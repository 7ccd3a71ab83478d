"""The `Sources` of volumes (and of variables and pull secrets) over the API, as a node may use it.

ConfigMaps and Secrets come from watches of exactly the objects that pods here refer to; claims and their volumes, which
a node may only get one by one, are asked for each time, the last answer being kept for when there is none. Nothing is
written to disk or to a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import msgspec

from tarmac.agent.sources.references import ObjectReference
from tarmac.agent.sources.tokens import PodTokens
from tarmac.agent.sources.watched import WatchedObjects
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import CONFIG_MAPS, SECRETS, VOLUME_CLAIMS, VOLUMES
from tarmac.volumes.interface import SourceUnavailable

FIRST_ANSWER = 1.0
LAST_ANSWERS = 500
_RESIZE_PENDING = ("FileSystemResizePending", "Resizing")

ImageRoot = Callable[[str, JsonObject], AbstractAsyncContextManager[str]]
"""A folder with an image's files, for a pod, while the context lasts; raises SourceUnavailable."""

_decode = msgspec.json.Decoder(dict).decode


@asynccontextmanager
async def _no_machines(image: str, pod: JsonObject) -> AsyncGenerator[str]:
    raise SourceUnavailable(f"image {image} is a virtual machine's, and none run on this node")
    yield


class ApiSources:
    """Implements `tarmac.volumes.interface.Sources`.

    `run` it; call `follow` with every pod of the node as it comes and changes, `unfollow` when it is gone.
    """

    def __init__(
        self, client: Client, image_root: ImageRoot, changed: Callable[[str], None] = lambda _uid: None
    ) -> None:
        self._client = client
        self._watched = WatchedObjects(client, self._tell)
        self._tokens = PodTokens(client)
        self._last: dict[tuple[str, str, str], JsonObject] = {}
        self.image_root = image_root
        self.machine_image: ImageRoot = _no_machines
        """A file with the raw disk of a machine's image, in the same way; set where machines run."""
        self.changed = changed
        """Called with the uid of a pod when an object that it refers to has come, changed or gone."""

    async def run(self) -> None:
        """Keep what pods refer to up to date until cancelled."""
        await self._watched.run()

    def follow(self, pod: JsonObject) -> None:
        """A pod of this node: its references are watched from now on."""
        self._watched.follow(pod)

    def unfollow(self, pod_uid: str) -> None:
        """A pod that is gone: its tokens are forgotten."""
        self._watched.unfollow(pod_uid)
        self._tokens.forget(pod_uid)

    async def config_map(self, namespace: str, name: str) -> JsonObject | None:
        """The ConfigMap, or None."""
        return await self._referenced(ObjectReference(CONFIG_MAPS.plural, namespace, name))

    async def secret(self, namespace: str, name: str) -> JsonObject | None:
        """The Secret, or None."""
        return await self._referenced(ObjectReference(SECRETS.plural, namespace, name))

    async def claim(self, namespace: str, name: str) -> JsonObject | None:
        """The claim, or None."""
        return await self._asked(VOLUME_CLAIMS, namespace, name)

    async def persistent_volume(self, name: str) -> JsonObject | None:
        """The volume, or None."""
        return await self._asked(VOLUMES, "", name)

    async def token(self, pod: JsonObject, audience: str, seconds: int) -> tuple[str, float]:
        """A token of the pod's account."""
        return await self._tokens.get(pod, audience, seconds)

    async def resized(self, claim: JsonObject, capacity: str) -> None:
        """Tell the claim's reader its size, and that nothing is pending any more."""
        metadata = claim["metadata"]
        conditions = (claim.get("status") or {}).get("conditions") or ()
        kept = [each for each in conditions if each.get("type") not in _RESIZE_PENDING]
        status = {"capacity": {"storage": capacity}, "conditions": kept or None}
        claims = self._client.resource(VOLUME_CLAIMS)
        try:
            await claims.patch(metadata["name"], {"status": status}, metadata["namespace"], subresource="status")
        except (ApiError, ClientError) as error:
            raise SourceUnavailable(str(error)) from error

    def _tell(self, pod_uid: str) -> None:
        self.changed(pod_uid)

    async def _referenced(self, reference: ObjectReference) -> JsonObject | None:
        """From the watch; before it has its first answer, or without one, by asking."""
        watched = self._watched.get(reference)
        if watched is not None:
            if not watched.known.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(watched.known.wait(), FIRST_ANSWER)
            if watched.known.is_set():
                return None if watched.raw is None else _decode(watched.raw)
        try:
            return await self._client.resource(reference.target).get(reference.name, reference.namespace)
        except NotFound:
            return None
        except (ApiError, ClientError) as error:
            raise SourceUnavailable(str(error)) from error

    async def _asked(self, target: Target[JsonObject], namespace: str, name: str) -> JsonObject | None:
        key = (target.plural, namespace, name)
        try:
            found = await self._client.resource(target).get(name, namespace)
        except NotFound:
            self._last.pop(key, None)
            return None
        except (ApiError, ClientError) as error:
            if key in self._last:
                return self._last[key]
            raise SourceUnavailable(str(error)) from error
        self._last.pop(key, None)  # the longest unasked goes first
        if len(self._last) >= LAST_ANSWERS:
            del self._last[next(iter(self._last))]
        self._last[key] = found
        return found
