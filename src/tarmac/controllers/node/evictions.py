"""Evicts pods from nodes with NoExecute taints, according to their tolerations, and cleans up after deleted nodes.

The time a pod may stay is measured on this process's monotonic clock from the first observation of the taint, so a jump
of the wall clock evicts no pod. Before a pod of an unreachable node is evicted, the node's heartbeat is checked once
more: after any sign of life the pod stays. Such a pod is deleted without waiting for the node, which cannot answer; on
a reachable node, pods end within their grace period.
"""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from tarmac.api.status import Conflict, NotFound
from tarmac.base.clock import rfc3339
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.client.targets.untyped import NODES, PODS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.node.heartbeats import Heartbeats
from tarmac.controllers.node.podsbynode import NodePod, PodsByNode
from tarmac.controllers.nodefacts import ObservedNode, read_node
from tarmac.controllers.writes import delete_same
from tarmac.decide.nodes import NO_EXECUTE, UNREACHABLE, stays

POLL_INTERVAL = 10.0  # pods may still arrive on a tainted node
SWEEP_SECONDS = 20.0
QUARANTINE = 40.0  # a deleted Node may be created again


_Seen = dict[tuple[str, str, str | None], float]


class TaintEvictions:
    """Reconciles by node name."""

    def __init__(self, context: ControllerContext, heartbeats: Heartbeats) -> None:
        client = context.client
        self._clock = client.clock
        self._recorder = context.recorder
        self._heartbeats = heartbeats
        self._resource = client.resource(PODS)
        self._node_resource = client.resource(NODES)
        self._nodes = context.informers.informer(NODES)
        self._pods = context.informers.informer(PODS)
        self.pods_by_node = PodsByNode(self._pods)
        self._first_observed: dict[str, _Seen] = {}  # by node: taints, and when each was first observed
        self._missing: dict[str, float] = {}  # deleted nodes, and since when
        self._controller = context.controller("eviction", self.reconcile)
        self._controller.watches(self._nodes)
        self._controller.awaits(self._pods)
        self._nodes.on_change(self._node_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(self._sweep())

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Evict the pods of one node whose time is over; return when the next one is due."""
        item = self._nodes.cache.item(name)
        facts = read_node(item.raw) if item is not None else None
        taints = self._note_taints(name, facts)
        if facts is None or not taints:
            return None
        nearest = POLL_INTERVAL
        for pod in list(self.pods_by_node.of(name)):
            left = self._seconds_left(pod, taints)
            if left is not None and left <= 0:
                await self._evict(facts, pod)
            elif left is not None:
                nearest = min(nearest, left)
        return RetryAfter(nearest)

    async def mark_not_ready(self, name: str) -> None:
        """Set the pods of a node that is not ready to not ready, regardless of their last report."""
        condition = {
            "type": "Ready",
            "status": "False",
            "reason": "NodeNotReady",
            "message": f"Node {name} is not ready.",
        }
        for pod in list(self.pods_by_node.of(name)):
            # Its agent cannot report any more, and Services would keep sending to it.
            if pod.status.ready and not pod.status.ended:
                condition["lastTransitionTime"] = rfc3339(self._clock.now())
                await self._patch_status(pod, {"status": {"conditions": [condition]}})

    def _note_taints(self, name: str, facts: ObservedNode | None) -> _Seen:
        """Return the NoExecute taints of a node, each with the time of its first observation."""
        known, now = self._first_observed.pop(name, {}), self._clock.monotonic()
        driving = [taint for taint in facts.taints if taint.effect == NO_EXECUTE] if facts is not None else []
        seen: _Seen = {}
        for taint in driving:
            identity = (taint.key, taint.value, taint.time_added)
            seen[identity] = known.get(identity, now)
        if seen:
            self._first_observed[name] = seen
        return seen

    def _seconds_left(self, pod: NodePod, taints: _Seen) -> float | None:
        """Return the seconds until the pod must go; None when it may stay."""
        limit = None if pod.status.ended else stays(pod.tolerances(), [key[:2] for key in taints])
        return None if limit is None else max(taints.values()) + limit - self._clock.monotonic()

    async def _evict(self, facts: ObservedNode, pod: NodePod) -> None:
        lost = any(taint.key == UNREACHABLE for taint in facts.taints) and facts.readiness == "Unknown"
        # A heartbeat since the taint: the node lives, so its pods must not be force-deleted.
        if lost and self._heartbeats.silent_in(facts.name) > 0:
            return
        # A lost node cannot confirm a graceful deletion: its pods are force-deleted even if they are terminating
        # already.
        if pod.metadata.deletion_timestamp is None or lost:
            await self._delete(pod, 0 if lost else None)
            about = InvolvedObject("v1", "Pod", pod.metadata.name, pod.metadata.namespace, pod.metadata.uid)
            self._recorder.event(about, "Normal", "TaintManagerEviction", f"Driven off node {facts.name}")

    async def _delete(self, pod: NodePod, grace: int | None) -> None:
        await delete_same(self._resource, pod.metadata, grace=grace)

    async def _patch_status(self, pod: NodePod, patch: Any) -> None:
        metadata = pod.metadata
        try:
            await self._resource.patch(
                metadata.name, patch, metadata.namespace, type="strategic", subresource="status", uid=metadata.uid
            )
        except (NotFound, Conflict):
            return  # deleted, or a new pod with the same name

    # Deleted nodes.

    def _node_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is not None:
            # Created again: its pods must not be deleted.
            self._missing.pop(new.metadata.name, None)
        elif old is not None:
            self._missing.setdefault(old.metadata.name, self._clock.monotonic())

    async def _sweep(self) -> NoReturn:
        await self._pods.synced()
        await self._nodes.synced()
        for name in self.pods_by_node.nodes():  # deleted while this controller was not running
            if name not in self._nodes.cache:
                self._missing.setdefault(name, self._clock.monotonic())
        while True:
            now = self._clock.monotonic()
            # A copy: a Node may come back while another one is cleared up, which changes the original.
            for name in [name for name, since in self._missing.items() if since + QUARANTINE <= now]:
                await self._clear_up(name)
                self._missing.pop(name, None)
            await self._clock.sleep(SWEEP_SECONDS)

    async def _clear_up(self, node: str) -> None:
        """Delete the pods of a deleted node. The server is asked first, since the cache may be behind."""
        try:
            await self._node_resource.get(node)
        except NotFound:
            for pod in list(self.pods_by_node.of(node)):
                await self._delete(pod, 0)
