"""Mirror pods: what the API shows of static pods.

A mirror carries the hash of its static pod. One with another hash is a leftover and goes; one that somebody deletes is
made again: only the manifest's end ends a static pod. Mirrors that cannot be made now are tried again at the next
report of their pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.agent.model.pod import CONFIG_HASH, CONFIG_MIRROR, Pod
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import PODS

_log = log("static")


class Mirrors:
    """The mirrors of this node's static pods, by `namespace/name`."""

    def __init__(self, client: Client, node: Callable[[], JsonObject]) -> None:
        self._pods = client.resource(PODS)
        self._node = node
        self._known: dict[str, Pod] = {}
        self._wanted: dict[str, Pod] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._owned = Tasks()
        self._again: set[str] = set()

    def heard(self, mirror: Pod) -> str:
        """The API has this mirror; the uid of the static pod it shows."""
        self._known[mirror.key] = mirror
        self._tend(mirror.key)
        return mirror.annotations[CONFIG_MIRROR]

    def gone(self, pod: Pod) -> None:
        """The API has lost a pod, which may have been a mirror."""
        if CONFIG_MIRROR in pod.annotations:
            self._known.pop(pod.key, None)
            self._tend(pod.key)

    def of(self, pod: Pod) -> str | None:
        """The uid of the mirror of a static pod; without one, it is made."""
        self._wanted[pod.key] = pod
        mirror = self._known.get(pod.key)
        if mirror is not None and _shows(mirror, pod):
            return mirror.uid
        self._tend(pod.key)
        return None

    def drop(self, pod: Pod) -> None:
        """The static pod is no more."""
        if self._wanted.get(pod.key) is not None and self._wanted[pod.key].uid == pod.uid:
            del self._wanted[pod.key]
            self._tend(pod.key)

    async def close(self) -> None:
        """Stop."""
        await self._owned.close()

    def _tend(self, key: str) -> None:
        if key in self._tasks:
            self._again.add(key)
            return
        task = self._tasks[key] = self._owned.begin(self._make_right(key), f"mirror {key}")
        task.add_done_callback(lambda done: self._tended(key, done))

    def _tended(self, key: str, done: asyncio.Task[None]) -> None:
        """What was heard meanwhile may ask for more."""
        del self._tasks[key]
        if key in self._again and not done.cancelled():
            self._again.discard(key)
            self._tend(key)

    async def _make_right(self, key: str) -> None:
        wanted, known = self._wanted.get(key), self._known.get(key)
        try:
            if known is not None and not (wanted is not None and _shows(known, wanted)):
                await self._pods.delete(known.name, known.namespace, grace=0, uid=known.uid)
            elif wanted is not None and known is None:
                await self._pods.create(self._mirror(wanted))
        except (ApiError, ClientError) as error:
            _log.info("mirror pod not as it should be", pod=key, error=str(error))

    def _mirror(self, pod: Pod) -> JsonObject:
        metadata = {field: value for field, value in pod.metadata.items() if field != "uid"}
        metadata["annotations"] = {**pod.annotations, CONFIG_MIRROR: pod.annotations[CONFIG_HASH]}
        node = self._node().get("metadata") or {}
        if node.get("uid"):
            owner = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"], "controller": True}
            metadata["ownerReferences"] = [owner]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod.spec}


def _shows(mirror: Pod, pod: Pod) -> bool:
    return mirror.annotations[CONFIG_MIRROR] == pod.annotations[CONFIG_HASH] and not mirror.deleted
