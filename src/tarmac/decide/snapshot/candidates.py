"""The nodes of some Locations with what is on them: a stage on which the scheduler can be asked.

Only pods that are on these nodes are read whole; of all others just the node's name is looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import NamedTuple

from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.partial import whereabouts
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.decide.scheduling import (
    Candidate,
    Cluster,
    Demands,
    Guard,
    Pod,
    Scheduler,
    guard_of,
    is_preempted,
    may_preempt,
    node_of,
    spent,
)
from tarmac.decide.scheduling.claims import disks_of
from tarmac.decide.snapshot.snapshot import BUDGETS, CLAIMS, NODES, PODS, RUNTIME_CLASSES, VOLUMES, Snapshot
from tarmac.decide.verdict import Refusal, Verdict

_FEW = 20  # more nodes than this are shown by kind, not one by one


class Going(NamedTuple):
    """Pods that end for another, and when the last of them has to be gone."""

    pods: list[Pod]
    until: float


class CandidateNodes:
    """Nodes and pods of the given Locations, or of all."""

    def __init__(self, snapshot: Snapshot, locations: Collection[str] | None = None) -> None:
        self._world = snapshot
        self._demands = Demands()
        self.cluster = Cluster()
        self.scheduler = Scheduler(self.cluster)
        for obj in NODES.all(snapshot):
            node = node_of(obj)
            if locations is None or node.location in locations:
                self.cluster.set_node(node)
        for raw in snapshot.list(PODS.resource):
            found = whereabouts(raw)
            if found.spec.node_name in self.cluster.nodes and found.status.phase not in TERMINAL:
                pod = PODS.decode(raw)
                self.cluster.add_pod(self._demands.pod(pod, self._handler(pod)), found.spec.node_name)

    def read(self, obj: JsonObject) -> Verdict[Pod]:
        """The pod as scheduling sees it; a "no" when one of its disks cannot be had."""
        disks = disks_of(obj, lambda key: CLAIMS.get(self._world, key), lambda key: VOLUMES.get(self._world, key))
        if disks.value is None:
            return Verdict(None, disks.refusals)
        return Verdict(self._demands.pod(obj, self._handler(obj), disks.value))

    @property
    def now(self) -> float:
        """Unix seconds."""
        return self._world.now

    @cached_property
    def _guards(self) -> list[Guard]:
        return [guard_of(each) for each in BUDGETS.all(self._world)]

    def preempted_for(self, pod: Pod) -> Candidate | None:
        """Who would end to make room for a pod that no node takes."""
        return self.scheduler.preempt(pod, self._guards, self._started) if may_preempt(pod, self.cluster) else None

    def end(self, candidate: Candidate) -> None:
        """Let the victims be gone, and paid for by their budgets."""
        for victim in candidate.victims:
            self.cluster.remove_pod(victim.uid)
        self._guards = spent(self._guards, candidate.victims)

    def going(self, pod: Pod, node: str) -> Going:
        """Who ends on a node to make room for the pod."""
        info, until = self.cluster.nodes.get(node), self.now
        pods = list[Pod]()
        for other in info.pods.values() if info is not None else ():
            found = PODS.get(self._world, f"{other.namespace}/{other.name}")
            if other.priority < pod.priority and found is not None and is_preempted(found):
                pods.append(other)
                until = max(until, parse_rfc3339(found["metadata"]["deletionTimestamp"]))
        return Going(pods, until)

    def refusals(self, pod: Pod) -> list[Refusal]:
        """Why no node takes the pod: all of it in one, then node by node, or kind by kind where nodes are many."""
        explained = list(self.scheduler.explain(pod))
        if not explained or len(self.cluster.nodes) > _FEW:
            return explained
        return [explained[0], *self.scheduler.refusals(pod)]

    def _started(self, pod: Pod) -> str:
        found = PODS.get(self._world, f"{pod.namespace}/{pod.name}") or {}
        return (found.get("status") or {}).get("startTime") or ""

    def _handler(self, pod: JsonObject) -> str:
        name = pod["spec"].get("runtimeClassName")
        found = RUNTIME_CLASSES.get(self._world, name) if name else None
        return found["handler"] if found else ""
