"""The scheduler's copy of the cluster, kept up to date by informers.

On every change only a few fields of a pod are decoded: enough to tell if it waits, is on a node, or is gone. The whole
pod is decoded once, when it is first scheduled or first seen on a node. A pod assumed to be on a node is confirmed by
the change that shows it there, at no further cost. A pod resized in place is decoded again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, cast

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.informer import Informer, Informers
from tarmac.client.targets.untyped import NODES, PODS, RUNTIME_CLASSES, VOLUME_CLAIMS, VOLUMES
from tarmac.controllers.scheduler.backlog import Backlog, Waiter
from tarmac.controllers.scheduler.podfacts import SchedulingPod, read_facts
from tarmac.decide.scheduling import Cluster, Demands, Disk, Pod, node_of
from tarmac.decide.scheduling.diskconstraints import SELECTED_NODE, claim_names, disks_of
from tarmac.decide.verdict import Verdict

# Volumes of pods, and the node selected for each new one.
#
# An unbound claim gets its volume on its pod's node: the first pod that uses the claim selects the node, which is
# written to the claim before the pod is bound.


class SchedulerDisks:
    """Claims and volumes, as the scheduler sees them."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._resource = client.resource(VOLUME_CLAIMS)
        self.claims = informers.informer(VOLUME_CLAIMS)
        self.volumes = informers.informer(VOLUMES)

    def of(self, pod: JsonObject) -> Verdict[tuple[Disk, ...]]:
        """Return the disks of a pod that already have a node; a refusal when one is unavailable."""
        return disks_of(pod, self.claims.get, self.volumes.get)

    def unplaced(self, pod: JsonObject) -> tuple[str, ...]:
        """Return the claims of a pod without a selected node."""
        namespace = pod["metadata"]["namespace"]
        claims = ((name, self.claims.get(f"{namespace}/{name}")) for name in claim_names(pod))
        return tuple(name for name, claim in claims if claim and _is_open(claim))

    async def place(self, namespace: str, name: str, node: str) -> None:
        """Write the selected node to a claim."""
        await self._resource.patch(name, {"metadata": {"annotations": {SELECTED_NODE: node}}}, namespace)


def _is_open(claim: JsonObject) -> bool:
    annotations: JsonObject = claim["metadata"].get("annotations") or {}
    return not claim["spec"].get("volumeName") and SELECTED_NODE not in annotations


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    labels: dict[str, str]
    annotations: dict[str, str]
    ownerReferences: list[dict[str, Any]]


class _Pod(TypedDict):
    """A pod without managedFields and status, which are most of its size."""

    metadata: _Metadata
    spec: dict[str, Any]


_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_pod = cast("Callable[[bytes], JsonObject]", msgspec.json.Decoder(_Pod).decode)


class SchedulerState:
    """Nodes, the pods on them, and the waiting pods."""

    def __init__(
        self, client: Client, informers: Informers, schedulers: frozenset[str], *, classes: bool = True
    ) -> None:
        self.cluster = Cluster()
        self.backlog = Backlog(self._version)
        self.disks = SchedulerDisks(client, informers)
        self.pods: Informer[JsonObject] = informers.informer(PODS)
        self._nodes = informers.informer(NODES)
        self._classes = informers.informer(RUNTIME_CLASSES)
        self._schedulers = schedulers
        self._demands = Demands(classes=classes)
        self._surroundings = 0  # changes of disks, runtime classes and subnets
        self._arrivals = 0  # pods that came to a node
        self._generations: dict[str, int] = {}  # of pods on nodes, as last decoded
        self._nodes.on_change(self._node_changed)
        self.pods.on_change(self._pod_changed)
        for informer in (self._classes, self.disks.claims, self.disks.volumes):
            informer.on_change(self.surroundings_changed)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """Informers that must have synced before the first decision."""
        return (self.pods, self._nodes, self._classes, self.disks.claims, self.disks.volumes)

    def facts(self, waiter: Waiter) -> SchedulingPod | None:
        """Return the scheduling fields of a waiting pod from the cache; None when it is gone."""
        item = self.pods.cache.item(waiter.key)
        facts = read_facts(item.raw) if item is not None else None
        return facts if facts is not None and facts.uid == waiter.uid else None

    def waits(self, waiter: Waiter) -> bool:
        """Return True if the pod still needs a node from this scheduler."""
        facts = self.facts(waiter)
        return facts is not None and not facts.ended and facts.waits_for(self._schedulers)

    def read(self, waiter: Waiter) -> Verdict[Pod]:
        """Return the waiting pod as the decision layer sees it; a refusal when one of its disks is unavailable."""
        # A disk, a class or a subnet may have changed since the pod was decoded: its demand follows from them.
        if waiter.pod is not None and waiter.read_at == self._surroundings:
            return Verdict(waiter.pod)
        item = self.pods.cache.item(waiter.key)
        assert item is not None, "a pod that waits is in our copy"
        obj = _decode_pod(item.raw)
        disks: tuple[Disk, ...] = ()
        if obj["spec"].get("volumes"):
            found = self.disks.of(obj)
            if found.value is None:
                return Verdict(None, found.refusals)
            disks, waiter.claims = found.value, self.disks.unplaced(obj)
        waiter.pod, waiter.read_at = self._demands.pod(obj, self._handler(obj), disks), self._surroundings
        return Verdict(waiter.pod)

    def place(self, pod: Pod, node: str) -> None:
        """Record the pod on the node, bound or assumed."""
        self._arrivals += 1
        self.cluster.add_pod(pod, node)

    def _version(self, sensitive: bool) -> int:
        return self.cluster.gains + self._surroundings + (self._arrivals if sensitive else 0)

    def _handler(self, pod: JsonObject) -> str:
        name = pod["spec"].get("runtimeClassName")
        found = self._classes.get(name) if name else None
        return found["handler"] if found else ""

    def _pod_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is None:
            if old is not None:
                self._remove(old.metadata.uid)
            return
        facts = read_facts(new.raw)
        uid, node = facts.uid, facts.spec.node_name
        if facts.ended:
            self._remove(uid)
        # Bound, by any scheduler: still queued, it would be decided a second time.
        elif node:
            self.backlog.remove(uid)
            if self._is_resized(facts) or self.cluster.node_of(uid) != node:
                obj = _decode_pod(new.raw)
                self.place(self._demands.pod(obj, self._handler(obj)), node)
        elif not facts.waits_for(self._schedulers):
            self._remove(uid)
        elif self.cluster.node_of(uid) is None:  # else it is being bound
            self.backlog.add(new.key, uid, facts.metadata.generation, facts.spec.priority)

    def _is_resized(self, pod: SchedulingPod) -> bool:
        """Return True if the requests of a pod on a node may have changed since it was decoded: its generation has."""
        generation = pod.metadata.generation
        known = self._generations.setdefault(pod.uid, generation)
        if known == generation or pod.metadata.deletion_timestamp is not None:
            return False
        self._generations[pod.uid] = generation
        return True

    def _remove(self, uid: str) -> None:
        self._generations.pop(uid, None)
        self.backlog.remove(uid)
        self.cluster.remove_pod(uid)

    def _node_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is None:
            if old is not None:
                self.cluster.remove_node(old.metadata.name)
            return
        self.cluster.set_node(node_of(_decode(new.raw)))

    def surroundings_changed(self, _old: Item[Any] | None, _new: Item[Any] | None) -> None:
        """Count a change of a disk, a runtime class or a subnet that a waiting pod may need."""
        self._surroundings += 1
