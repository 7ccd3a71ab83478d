"""The node must offer the handler of the pod's RuntimeClass."""

from __future__ import annotations

from tarmac.api.kubernetes.runtimeclasses import HOST_CLASS, SANDBOX_CLASS
from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo


class RuntimeHandler:
    """A node that does not say what it offers is taken to offer everything, as in Kubernetes."""

    rule = "runtime"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Look for the handler."""
        handler = pod.demand.handler
        if not handler:
            return None

        def check(info: NodeInfo) -> str | None:
            offered = info.node.handlers
            return None if offered is None or handler in offered else reasons.RUNTIME_UNAVAILABLE

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Which handler."""
        return Brief(f"no runtime {pod.demand.handler}")

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Which handler."""
        handler, name = pod.demand.handler, info.node.name
        fix = f"install {handler} on {name}"
        if handler == SANDBOX_CLASS:
            fix += f", or ask for the RuntimeClass {HOST_CLASS}, which takes the right to use it"
        return Why(f"node {name} does not offer runtime {handler}", fix)
