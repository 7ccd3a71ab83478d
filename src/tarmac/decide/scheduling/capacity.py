"""Free capacity of a Location, for choosing among Locations and for moving instances of a lost city.

Only nodes that take ordinary pods count: not cordoned, and without a NoSchedule or NoExecute taint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tarmac.decide.amounts import PODS, Amounts
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE
from tarmac.decide.scheduling.classdemand import ClassDemand
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.filters.taints import KEEPS_OFF
from tarmac.decide.scheduling.nodeinfo import NodeInfo


def free_at(cluster: Cluster, location: str) -> Amounts:
    """Return the sum of free resources on the nodes of a Location."""
    total: Amounts = {}
    for info in open_nodes(cluster, location):
        for resource, amount in info.free.items():
            if resource != CPU_EXCLUSIVE:  # already counted as cpu
                total[resource] = total.get(resource, 0) + max(0, amount)
    return total


def room_at(cluster: Cluster, location: str, requests: Mapping[str, int], classes: ClassDemand | None = None) -> int:
    """Count the pods of this size, with these classes, that fit at a Location, node by node.

    Exclusive CPUs are requested as `CPU_EXCLUSIVE`.
    """
    wanted = [(resource, amount) for resource, amount in {**requests, PODS: 1}.items() if amount]
    return sum(
        max(0, min(places_left(info, classes), *(info.free.get(name, 0) // amount for name, amount in wanted)))
        for info in open_nodes(cluster, location)
    )


def open_nodes(cluster: Cluster, location: str) -> Iterator[NodeInfo]:
    """Yield the nodes of a Location that take ordinary pods."""
    for pool in cluster.pools.values():
        node = pool.example.node
        if node.location == location and not node.unschedulable and all(t.effect not in KEEPS_OFF for t in node.taints):
            yield from pool


def places_left(info: NodeInfo, classes: ClassDemand | None) -> int:
    """Count the pods with these classes that the node can take, by class places and by its pod limit."""
    offer, most = info.node.offer, info.free[PODS]
    if classes is None:
        return most
    need = classes.on(offer)
    if need.torn or need.misplaced:
        return 0
    for place, requested in need.places:
        if place not in offer.capacity:
            return 0
        capacity = offer.capacity[place]
        if capacity is not None:
            most = min(most, (capacity - info.places.get(place, 0)) // requested)
    return most
