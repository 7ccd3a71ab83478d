"""The nodes of some Locations with their pods, as a cluster for the scheduler.

Only pods on these nodes are decoded completely; of all other pods only node name and phase are.
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
    Cluster,
    Demands,
    Guard,
    Pod,
    PreemptionCandidate,
    Scheduler,
    guard_of,
    is_preempted,
    may_preempt,
    node_of,
    spent,
)
from tarmac.decide.scheduling.diskconstraints import disks_of
from tarmac.decide.snapshot.snapshot import BUDGETS, CLAIMS, NODES, PODS, RUNTIME_CLASSES, VOLUMES, Snapshot
from tarmac.decide.verdict import Refusal, Verdict

_FEW = 20  # limit of nodes listed one by one; more are grouped by kind of refusal


class Going(NamedTuple):
    """Preempted pods that are terminating, and the deadline of the last one."""

    pods: list[Pod]
    until: float


class CandidateNodes:
    """Nodes and pods of the given Locations; None: of all."""

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
        """Return the scheduler's view of a pod; a refusal if one of its claims is missing or being deleted."""
        disks = disks_of(obj, lambda key: CLAIMS.get(self._world, key), lambda key: VOLUMES.get(self._world, key))
        if disks.value is None:
            return Verdict(None, disks.refusals)
        return Verdict(self._demands.pod(obj, self._handler(obj), disks.value))

    @property
    def now(self) -> float:
        """The time of the snapshot in Unix seconds."""
        return self._world.now

    @cached_property
    def _guards(self) -> list[Guard]:
        return [guard_of(each) for each in BUDGETS.all(self._world)]

    def preempted_for(self, pod: Pod) -> PreemptionCandidate | None:
        """Return the node and victims of a preemption for a pod that no node takes."""
        return self.scheduler.preempt(pod, self._guards, self._started) if may_preempt(pod, self.cluster) else None

    def end(self, candidate: PreemptionCandidate) -> None:
        """Remove the victims, and charge them to their disruption budgets."""
        for victim in candidate.victims:
            self.cluster.remove_pod(victim.uid)
        self._guards = spent(self._guards, candidate.victims)

    def going(self, pod: Pod, node: str) -> Going:
        """Return the pods that are terminating on a node because the pod preempted them."""
        info, until = self.cluster.nodes.get(node), self.now
        pods = list[Pod]()
        for other in info.pods.values() if info is not None else ():
            found = PODS.get(self._world, f"{other.namespace}/{other.name}")
            if other.priority < pod.priority and found is not None and is_preempted(found):
                pods.append(other)
                until = max(until, parse_rfc3339(found["metadata"]["deletionTimestamp"]))
        return Going(pods, until)

    def refusals(self, pod: Pod) -> list[Refusal]:
        """Return why no node takes the pod: a summary, then by node, or by kind if there are many nodes."""
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
