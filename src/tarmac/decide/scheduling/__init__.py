"""The scheduler: assigns pods to nodes.

`Demands` reads pods and `node_of` nodes; the caller keeps a `Cluster` current with them; a `Scheduler` chooses on it:

    cluster, demands = Cluster(), Demands()
    scheduler = Scheduler(cluster)
    cluster.set_node(node_of(node))                # for each node, and whenever it changes
    pod = demands.pod(obj)                         # for each pod
    cluster.add_pod(pod, obj["spec"]["nodeName"])  # if it has a node
    verdict = scheduler.choose(pod, turn)          # if it has none
    cluster.add_pod(pod, verdict.value)            # assume that the binding will succeed
    cluster.remove_pod(pod.uid)                    # if it failed, and when a pod ends or is deleted
"""

from __future__ import annotations

from tarmac.decide.scheduling.capacity import free_at, open_nodes, places_left, room_at
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Demand, Demands, Disk, Pod, requests_of
from tarmac.decide.scheduling.nodeinfo import Node, NodeInfo, Taint, node_of
from tarmac.decide.scheduling.nodeterms import any_of
from tarmac.decide.scheduling.preemption import (
    Guard,
    PreemptionCandidate,
    guard_of,
    is_reservation,
    may_preempt,
    reservation,
)
from tarmac.decide.scheduling.scheduler import Scheduler
from tarmac.decide.scheduling.victims import BY_SCHEDULER, is_preempted, named, spent

__all__ = [
    "BY_SCHEDULER",
    "Cluster",
    "Demand",
    "Demands",
    "Disk",
    "Guard",
    "Node",
    "NodeInfo",
    "Pod",
    "PreemptionCandidate",
    "Scheduler",
    "Taint",
    "any_of",
    "free_at",
    "guard_of",
    "is_preempted",
    "is_reservation",
    "may_preempt",
    "named",
    "node_of",
    "open_nodes",
    "places_left",
    "requests_of",
    "reservation",
    "room_at",
    "spent",
]
