"""Mirror pods: the representation of static pods in the API.

A mirror carries the hash of its static pod. One with a different hash is stale and is deleted; one deleted by a user is
created again: only removing the manifest ends a static pod. A failed creation is retried at the next status report of
the pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tarmac.agent.model.pod import CONFIG_HASH, AgentPod
from tarmac.api.mirrorpods import MIRROR, is_mirror
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import PODS

# of `spec`: rules about other pods
_RELATIONS: Final = ("affinity", "topologySpreadConstraints")
_log = log("static")


class MirrorPodManager:
    """The mirrors of this node's static pods, by `namespace/name`."""

    def __init__(self, client: Client, node: Callable[[], JsonObject]) -> None:
        self._pods = client.resource(PODS)
        self._node = node
        self._known: dict[str, AgentPod] = {}
        self._wanted: dict[str, AgentPod] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._owned = Tasks()
        self._pending: set[str] = set()

    def observe(self, mirror: AgentPod) -> str:
        """Record a mirror in the API; return the uid of its static pod."""
        self._known[mirror.key] = mirror
        self._schedule(mirror.key)
        return mirror.annotations[MIRROR]

    def gone(self, pod: AgentPod) -> None:
        """Handle the removal of a pod that may be a mirror."""
        if is_mirror(pod.annotations):
            self._known.pop(pod.key, None)
            self._schedule(pod.key)

    def of(self, pod: AgentPod) -> str | None:
        """Return the uid of a static pod's mirror; create the mirror if there is none."""
        self._wanted[pod.key] = pod
        mirror = self._known.get(pod.key)
        if mirror is not None and _shows(mirror, pod):
            return mirror.uid
        self._schedule(pod.key)
        return None

    def drop(self, pod: AgentPod) -> None:
        """Remove the mirror of an ended static pod."""
        if self._wanted.get(pod.key) is not None and self._wanted[pod.key].uid == pod.uid:
            del self._wanted[pod.key]
            self._schedule(pod.key)

    async def close(self) -> None:
        """Cancel all requests."""
        await self._owned.close()

    def _schedule(self, key: str) -> None:
        # One request at a time for each name: a delete and a create that overtake each other would leave no mirror.
        if key in self._tasks:
            self._pending.add(key)
            return
        task = self._tasks[key] = self._owned.begin(self._reconcile(key), f"mirror {key}")
        task.add_done_callback(lambda done: self._finished(key, done))

    def _finished(self, key: str, done: asyncio.Task[None]) -> None:
        """Reconcile again if there were changes meanwhile."""
        # Before the next schedule, which would otherwise see this task and only mark the key as pending again.
        del self._tasks[key]
        if key in self._pending and not done.cancelled():
            self._pending.discard(key)
            self._schedule(key)

    async def _reconcile(self, key: str) -> None:
        wanted, known = self._wanted.get(key), self._known.get(key)
        try:
            if known is not None and not (wanted is not None and _shows(known, wanted)):
                # With the uid: a mirror that was replaced since the watch showed it must stay.
                await self._pods.delete(known.name, known.namespace, grace=0, uid=known.uid)
            elif wanted is not None and known is None:
                await self._pods.create(self._mirror(wanted))
        except (ApiError, ClientError) as error:
            _log.info("mirror pod update failed, will retry", pod=key, error=str(error))

    def _mirror(self, pod: AgentPod) -> JsonObject:
        # The mirror gets a uid from the server; finalizers would keep it after its manifest is gone.
        metadata = {field: value for field, value in pod.metadata.items() if field not in ("uid", "finalizers")}
        metadata["annotations"] = {**pod.annotations, MIRROR: pod.annotations[CONFIG_HASH]}
        node = self._node().get("metadata") or {}
        if node.get("uid"):
            owner = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"], "controller": True}
            metadata["ownerReferences"] = [owner]
        # The pod is on its node already, and the server refuses mirrors with rules for other pods.
        spec = {field: value for field, value in pod.spec.items() if field not in _RELATIONS}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _shows(mirror: AgentPod, pod: AgentPod) -> bool:
    return mirror.annotations[MIRROR] == pod.annotations[CONFIG_HASH] and not mirror.deleted
