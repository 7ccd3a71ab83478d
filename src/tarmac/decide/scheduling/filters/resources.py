"""The node must have the requested resources: CPU, memory, devices, and room for one more pod."""

from __future__ import annotations

from tarmac.decide import reasons
from tarmac.decide.scheduling.amounts import PODS, available, described
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo


class ResourceFilter:
    """Requests must not exceed the free amounts: resources are never overcommitted."""

    rule = "resources"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Compare every amount."""
        requests = pod.demand.requests

        def check(info: NodeInfo) -> str | None:
            free = info.free
            for resource, amount in requests:
                if free.get(resource, 0) < amount:
                    return reasons.INSUFFICIENT_CAPACITY
            return None

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the resources."""
        short = _short(pod, info)
        names = short[0][0] if len(short) == 1 else ", ".join(name for name, _, _ in short)
        return Brief(f"Insufficient {names}", sum((amount - free) / amount for _, amount, free in short))

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the missing resources and amounts."""
        short = _short(pod, info)
        unhealthy = info.node.unhealthy or {}
        needs = " and ".join(described(name, amount) for name, amount, _ in short)
        tell = available if len(short) == 1 else described  # the unit is repeated only where it is needed
        free = " and ".join(f"{tell(name, free)} free{_broken(unhealthy.get(name, 0))}" for name, _, free in short)
        return Why(f"needs {needs}; {info.node.name} has {free}", _change(short, info))


def _short(pod: Pod, info: NodeInfo) -> list[tuple[str, int, int]]:
    """Return the insufficient resources: name, requested, free."""
    free = info.free
    return [
        (name, amount, max(0, free.get(name, 0))) for name, amount in pod.demand.requests if free.get(name, 0) < amount
    ]


def _change(short: list[tuple[str, int, int]], info: NodeInfo) -> str:
    missing = " and ".join(described(name, amount - free) for name, amount, free in short)
    asked = [described(name, free) for name, _, free in short if free and name != PODS]
    freeing = f"free {missing} on {info.node.name}"
    return f"ask for at most {' and '.join(asked)}, or {freeing}" if len(asked) == len(short) else freeing


def _broken(devices: int) -> str:
    return f", {devices} unhealthy" if devices else ""
