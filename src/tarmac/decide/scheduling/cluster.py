"""The scheduler's view of nodes and their pods, updated event by event.

The caller adds a pod as soon as it has decided (assuming that the binding succeeds) and removes it if the binding
fails; the event that confirms the binding then changes nothing. Pods may arrive before their node, and stay known after
it is deleted. The cost of a call does not depend on the number of nodes, except for the first use of a label in a pod's
selector, which rebuilds all pools.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tarmac.decide.scheduling.census import Census
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import Node, NodeInfo, NodePool
from tarmac.decide.scheduling.nodeterms import HOSTNAME

# A label with more values than this is nearly unique per node, and pools of one node are useless.
_MAX_VALUES: Final = 64
_MANY_POOLS: Final = 512


class Cluster:
    """Nodes in pools, with their pods. `shape` counts changes of nodes, `gains` events that may have freed capacity."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.pools: dict[tuple[object, ...], NodePool] = {}
        self.images: dict[str, int] = {}  # number of nodes with the image
        self.priorities: dict[int, int] = {}  # number of pods with the priority
        self.census = Census(self.nodes)
        self.shape = self.gains = 0
        self._hosts: dict[str, dict[str, NodeInfo]] = {}  # by hostname label
        self._keys: tuple[str, ...] = ()  # labels that distinguish pools
        self._single: set[str] = {HOSTNAME}  # labels with too many values
        self._many = _MANY_POOLS  # number of pools above which they are rebuilt
        self._where: dict[str, tuple[Pod, str]] = {}
        self._homeless: dict[str, dict[str, Pod]] = {}

    def set_node(self, node: Node) -> None:
        """Add or update a node."""
        info = self.nodes.get(node.name)
        if info is None:
            info = NodeInfo(node)
        elif info.node == node:
            return
        else:
            self._leave(info)
            info.replace(node)
        self._changed()
        self._join(info)
        for pod in self._homeless.pop(node.name, {}).values():
            self._attach(pod, info)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods stay known until they are removed."""
        info = self.nodes.get(name)
        if info is None:
            return
        self._changed()
        pods = dict(info.pods)
        self._leave(info)
        if pods:
            self._homeless[name] = pods

    def add_pod(self, pod: Pod, node_name: str) -> None:
        """Add or update a pod that is on a node or assumed to be. Idempotent."""
        known = self._where.get(pod.uid)
        if known is not None:
            if known[1] == node_name and _is_same(known[0], pod):
                return
            self.remove_pod(pod.uid)
        self._where[pod.uid] = pod, node_name
        self.priorities[pod.priority] = self.priorities.get(pod.priority, 0) + 1
        info = self.nodes.get(node_name)
        if info is None:
            self._homeless.setdefault(node_name, {})[pod.uid] = pod
        else:
            self._attach(pod, info)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod that has ended, was deleted, or failed to bind."""
        known = self._where.pop(uid, None)
        if known is None:
            return
        pod, node_name = known
        self.priorities[pod.priority] -= 1
        if not self.priorities[pod.priority]:
            del self.priorities[pod.priority]
        info = self.nodes.get(node_name)
        if info is None:
            self._homeless[node_name].pop(uid)
            return
        self.gains += 1
        info.discharge(pod)
        self.census.pod_removed(pod, info.node)
        if info.pool is not None:
            info.pool.refresh(info)

    def node_of(self, uid: str) -> str | None:
        """Return the node of a pod, if known."""
        known = self._where.get(uid)
        return known[1] if known else None

    def named(self, name: str) -> list[NodeInfo]:
        """Return the nodes with this name or hostname label."""
        found = dict(self._hosts.get(name, {}))
        if name in self.nodes:
            found[name] = self.nodes[name]
        return list(found.values())

    def pools_agree_on(self, keys: Collection[str]) -> bool:
        """Return True if the nodes of each pool agree on these labels; rebuild the pools by them if feasible."""
        new = [key for key in keys if key not in self._keys and key not in self._single]
        if new:
            self._sort_anew((*self._keys, *new))
        return self._single.isdisjoint(keys)

    def _attach(self, pod: Pod, info: NodeInfo) -> None:
        info.charge(pod)
        self.census.pod_added(pod, info.node)
        if info.pool is not None:
            info.pool.refresh(info)

    def _join(self, info: NodeInfo) -> None:
        """Add a node with its pods to all indexes."""
        node = info.node
        self.nodes[node.name] = info
        self._hosts.setdefault(node.labels.get(HOSTNAME, node.name), {})[node.name] = info
        for image in node.images or ():
            self.images[image] = self.images.get(image, 0) + 1
        self.census.node_added(info)
        for pod in info.pods.values():
            self.census.pod_added(pod, node)
        self._pool(info)
        if len(self.pools) > self._many:
            self._sort_anew(self._keys)
            self._many = max(_MANY_POOLS, 2 * len(self.pools))

    def _leave(self, info: NodeInfo) -> None:
        node = info.node
        for pod in info.pods.values():
            self.census.pod_removed(pod, node)
        self.census.node_removed(info)
        for image in node.images or ():
            self.images[image] -= 1
        del self._hosts[node.labels.get(HOSTNAME, node.name)][node.name]
        del self.nodes[node.name]
        pool = info.pool
        if pool is not None:
            pool.remove(info)
            if not pool.size:
                del self.pools[pool.key]

    def _pool(self, info: NodeInfo) -> None:
        node = info.node
        labels = node.labels
        values = tuple(labels.get(key) for key in self._keys)
        alike = (node.handlers, node.devices, node.offer.alike)
        key = (node.location, node.taints, node.unschedulable, *alike, values)
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = NodePool(key)
        pool.add(info)

    def _sort_anew(self, keys: tuple[str, ...]) -> None:
        """Rebuild the pools by these labels, except those with too many values."""
        values = {key: {info.node.labels.get(key) for info in self.nodes.values()} for key in keys}
        self._single.update(key for key in keys if len(values[key]) > _MAX_VALUES)
        self._keys = tuple(key for key in keys if key not in self._single)
        self.shape += 1
        self.pools.clear()
        for info in self.nodes.values():
            self._pool(info)

    def _changed(self) -> None:
        self.shape += 1
        self.gains += 1


def _is_same(one: Pod, other: Pod) -> bool:
    return one.demand is other.demand and one.labels == other.labels and one.group == other.group
