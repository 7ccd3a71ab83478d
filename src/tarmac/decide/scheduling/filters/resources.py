"""The node must have what the pod asks for: processors, memory, devices, and room for one more pod."""

from __future__ import annotations

from tarmac.decide import reasons
from tarmac.decide.scheduling.amounts import PODS, shown
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo


class Resources:
    """Nothing is ever promised twice."""

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

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """What is missing, and how much."""
        short = [(name, amount, max(0, info.free.get(name, 0))) for name, amount in pod.demand.requests]
        short = [entry for entry in short if entry[2] < entry[1]]
        names = ", ".join(name for name, _, _ in short)
        lacks = "; ".join(f"{shown(n, amount)} {n} wanted, {shown(n, free)} free" for n, amount, free in short)
        cost = sum((amount - free) / amount for _, amount, free in short)
        return Why(f"Insufficient {names}", f"{lacks} on {info.node.name}", _change(short, info), cost)


def _change(short: list[tuple[str, int, int]], info: NodeInfo) -> str:
    missing = " and ".join(f"{shown(name, amount - free)} {name}" for name, amount, free in short)
    asked = [f"{shown(name, free)} {name}" for name, _, free in short if free and name != PODS]
    freeing = f"free {missing} on {info.node.name}"
    return f"ask for at most {' and '.join(asked)}, or {freeing}" if len(asked) == len(short) else freeing
