"""Decommissions a leaving node: cordons it, removes its pods, then revokes its certificates and deletes its Node.

The node announces it with an annotation that names a deadline (`tarmac leave`). Before the deadline, pods are evicted
as budgets allow; after it they are deleted; and pods that a silent node does not end are force-deleted a little later.
No state is kept between two passes: each determines the progress anew, so another controller process can continue.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tarmac.api.mirrorpods import is_mirror
from tarmac.api.nodetokens import DELETE_DISKS, LEAVING
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound, TooManyRequests
from tarmac.base.clock import parse_rfc3339
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.client.targets.untyped import NODES, PODS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.node.podsbynode import NodePod, PodsByNode
from tarmac.controllers.nodefacts import ObservedNode, read_node
from tarmac.controllers.noderemoval import forget_node, release_disks
from tarmac.controllers.writes import delete_same

MANAGER = "tarmac-node"
POLL_INTERVAL = 1.0
FORCE_SECONDS = 45.0  # after the deadline: more than the usual grace period of pods


class Decommission:
    """Reconciles by node name."""

    def __init__(self, context: ControllerContext, pods_by_node: PodsByNode) -> None:
        self._client = context.client
        self._clock = context.client.clock
        self._nodes = context.client.resource(NODES)
        self._pods = context.client.resource(PODS)
        self._known = context.informers.informer(NODES)
        self._pods_by_node = pods_by_node
        self._controller = context.controller("node-departure", self.reconcile)
        self._controller.watches(self._known, _leaving)
        self._controller.awaits(context.informers.informer(PODS))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Take the next steps of one node's removal."""
        item = self._known.cache.item(name)
        if item is None or not _leaving(item):
            return None
        facts = read_node(item.raw)
        # First: a pod bound after the evictions would be lost with its node.
        if not facts.spec.unschedulable:
            await self._nodes.patch(name, {"spec": {"unschedulable": True}}, manager=MANAGER, uid=facts.metadata.uid)
        if DELETE_DISKS in (facts.metadata.annotations or {}):
            # Before the pods: their replacements must get new claims, and not wait for disks that are about to be lost.
            await release_disks(self._client, name)
        late = self._clock.now() - _deadline(facts)
        # Static pods end with their node: deleted here, the agent would only create their mirrors again.
        # So do pods of DaemonSets: their controller tolerates the cordon and would make each of them again.
        left = [pod for pod in self._pods_by_node.of(name) if not _ends_with_node(pod)]
        for pod in left:
            await self._end_pod(pod, late)
        if left:
            return RetryAfter(POLL_INTERVAL)
        await forget_node(self._client, name)
        return None

    async def _end_pod(self, pod: NodePod, late: float) -> None:
        if pod.status.ended or late >= FORCE_SECONDS:
            await delete_same(self._pods, pod.metadata, grace=0)
        elif pod.metadata.deletion_timestamp is None and late >= 0:
            await delete_same(self._pods, pod.metadata, grace=None)
        elif pod.metadata.deletion_timestamp is None:
            with suppress(NotFound, TooManyRequests):  # already deleted, or its budget does not allow it now
                metadata = pod.metadata
                await self._pods.create(
                    _eviction(pod), namespace=metadata.namespace, name=metadata.name, subresource="eviction"
                )


def _ends_with_node(pod: NodePod) -> bool:
    owner = pod.metadata.controller
    of_daemon_set = owner is not None and (owner.api_version, owner.kind) == ("apps/v1", "DaemonSet")
    return of_daemon_set or is_mirror(pod.metadata.annotations)


def _eviction(pod: NodePod) -> JsonObject:
    metadata = {"name": pod.metadata.name, "namespace": pod.metadata.namespace}
    # By uid: a replacement of the same name may run elsewhere by now.
    options = {"preconditions": {"uid": pod.metadata.uid}}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}


def _leaving(item: Item[Any]) -> list[str]:
    return [item.key] if LEAVING in (item.metadata.annotations or {}) else []


def _deadline(facts: ObservedNode) -> float:
    """Return the deadline. An unreadable one counts as past."""
    try:
        return parse_rfc3339((facts.metadata.annotations or {})[LEAVING])
    except ValueError:
        return 0.0
