"""The node must offer the handler of the pod's RuntimeClass, which must pass on the devices that the pod requests."""

from __future__ import annotations

from tarmac.api.compute.names import MACHINES_READY
from tarmac.api.kubernetes.runtimeclasses import HOST_CLASS, MACHINE_CLASS, NVIDIA_HANDLER, SANDBOX_CLASS
from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo


class RuntimeHandler:
    """A node that does not report its handlers counts as offering all of them, as in Kubernetes."""

    rule = "runtime"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Check the handler and the devices."""
        handler = pod.demand.handler
        if not handler:
            return None

        def check(info: NodeInfo) -> str | None:
            if not _offers(info, handler):
                return reasons.RUNTIME_UNAVAILABLE
            return reasons.DEVICE_UNSUPPORTED if _unsupported(pod, info) else None

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the handler."""
        handler = pod.demand.handler
        if _unsupported(pod, info):
            return Brief(f"no devices under {handler}")
        return Brief("no virtual machines" if handler == MACHINE_CLASS else f"no runtime {handler}")

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the handler."""
        handler, name = pod.demand.handler, info.node.name
        if handler == NVIDIA_HANDLER and info.node.gpus_closed:
            message = f"sandboxes of node {name} cannot use its GPUs: {info.node.gpus_closed}"
            return Why(
                message,
                f"as node {name} says, or ask for the RuntimeClass {HOST_CLASS}, which takes the right to use it",
            )
        if unsupported := _unsupported(pod, info):
            classes = ", ".join(sorted(filter(None, info.node.devices.handlers))) or "none"
            message = f"runtime {handler} of node {name} does not pass {', '.join(unsupported)} on to containers"
            if handler == MACHINE_CLASS:
                return Why(
                    f"{message}: it would need VFIO and an IOMMU", "ask for a sandbox instead of a virtual machine"
                )
            return Why(message, f"ask for a RuntimeClass that does ({classes}), which takes the right to use it")
        if handler == MACHINE_CLASS:
            message = f"node {name} runs no virtual machines; its condition {MACHINES_READY} has the cause"
            return Why(message, f"run apt install tarmac-machines on {name}, and restart its agent")
        if handler == NVIDIA_HANDLER:
            return Why(
                f"node {name} has no GPU that sandboxes can use",
                f"install NVIDIA's driver on {name}, or add a node with GPUs",
            )
        fix = f"install {handler} on {name}"
        if handler == SANDBOX_CLASS:
            fix += f", or ask for the RuntimeClass {HOST_CLASS}, which takes the right to use it"
        return Why(f"node {name} does not offer runtime {handler}", fix)


def _offers(info: NodeInfo, handler: str) -> bool:
    offered = info.node.handlers
    return offered is None or handler in offered


def _unsupported(pod: Pod, info: NodeInfo) -> list[str]:
    """Return the requested devices that the pod's handler does not pass on at this node."""
    devices, handler = info.node.devices, pod.demand.handler
    if not devices.resources or handler in devices.handlers or not _offers(info, handler):
        return []
    return [name for name, _ in pod.demand.requests if name in devices.resources]
