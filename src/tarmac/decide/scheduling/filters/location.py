"""A pod that belongs to a Location runs on a node of that Location."""

from __future__ import annotations

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo


class InLocation:
    """The Location is the value of one label that the pod's node selector names."""

    rule = "location"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Compare names."""
        location = pod.demand.location
        if not location:
            return None
        return lambda info: None if info.node.location == location else reasons.OUTSIDE_LOCATION

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the Location."""
        return Brief(f"outside {pod.demand.location}", 9.0)

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the Location."""
        location = pod.demand.location
        message = f"node {info.node.name} is not at Location {location}"
        return Why(message, f"add a node to Location {location}")
