"""The node must have the requested resources: CPU, memory, devices, and room for one more pod."""

from __future__ import annotations

from typing import Final

from tarmac.decide import reasons
from tarmac.decide.amounts import PODS, available, described
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.holders import holders_of, to_delete
from tarmac.decide.scheduling.nodeinfo import NodeInfo

_NAMED: Final = 3
"""Holders of devices that a refusal names."""


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
        amount_text = available if len(short) == 1 else described  # the unit is repeated only where it is needed
        free = " and ".join(
            f"{amount_text(name, free)} free{_broken(unhealthy.get(name, 0))}{_held(name, pod, info)}"
            for name, _, free in short
        )
        return Why(f"needs {needs}; {info.node.name} has {free}", _change(short, info, _own_holders(short, pod, info)))


def _short(pod: Pod, info: NodeInfo) -> list[tuple[str, int, int]]:
    """Return the insufficient resources: name, requested, free."""
    free = info.free
    return [
        (name, amount, max(0, free.get(name, 0))) for name, amount in pod.demand.requests if free.get(name, 0) < amount
    ]


def _held(name: str, pod: Pod, info: NodeInfo) -> str:
    """Name the pods that have devices of a kind. Of other namespaces only their number: names are their tenants'."""
    holders = holders_of(name, info)
    if not holders:
        return ""
    own = sorted(each.name for each in holders if each.namespace == pod.namespace)
    more = len(holders) - min(len(own), _NAMED)
    named = [*own[:_NAMED], *([f"{more} more {'pod' if more == 1 else 'pods'}"] if more and own else [])]
    others = f"{len(holders)} {'pod' if len(holders) == 1 else 'pods'} of other namespaces"
    return f", held by {', '.join(named) if own else others}"


def _own_holders(short: list[tuple[str, int, int]], pod: Pod, info: NodeInfo) -> list[str]:
    found = {each.name for name, _, _ in short for each in holders_of(name, info) if each.namespace == pod.namespace}
    return sorted(found)


def _change(short: list[tuple[str, int, int]], info: NodeInfo, holders: list[str]) -> str:
    missing = " and ".join(described(name, amount - free) for name, amount, free in short)
    asked = [described(name, free) for name, _, free in short if free and name != PODS]
    freeing = f"free {missing} on {info.node.name}{to_delete(holders)}"
    return f"ask for at most {' and '.join(asked)}, or {freeing}" if len(asked) == len(short) else freeing


def _broken(devices: int) -> str:
    return f", {devices} unhealthy" if devices else ""
