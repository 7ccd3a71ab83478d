"""The least change with which all instances that wait have room on nodes, not only the next one.

Those that run keep what they hold: a rollout takes none of them away before those that wait are ready. So the size that
is named is the largest at which all that wait fit beside them.
"""

from __future__ import annotations

from tarmac.decide.scheduling import Cluster, open_nodes, room_at
from tarmac.decide.scheduling.amounts import PODS, Amounts, shown


def either(smaller: str, room: str) -> str:
    """The two ways out as a sentence."""
    return f"Ask for at most {smaller}, or {room}." if smaller else f"{room[0].upper()}{room[1:]}."


def room_to_make(cluster: Cluster, location: str, size: Amounts, count: int) -> str:
    """What to take away so that so many more of this size fit."""
    more = f"make room for {count} more of {_listed(size)} at {location}"
    return more if count > 1 else _freeing(cluster, location, size) or more


def _freeing(cluster: Cluster, location: str, size: Amounts) -> str:
    """What to take away from the node that lacks the least for one more."""
    wanted = {**size, PODS: 1}
    lacks = [
        (info.node.name, {name: amount - info.free.get(name, 0) for name, amount in wanted.items()})
        for info in open_nodes(cluster, location)
    ]
    if not lacks:
        return ""
    node, lack = min(lacks, key=lambda each: (sum(max(0, each[1][name]) / wanted[name] for name in wanted), each[0]))
    short = {name: amount for name, amount in lack.items() if amount > 0}
    return f"free {_listed(short)} on {node}" if short else ""


def size_that_fits(cluster: Cluster, location: str, size: Amounts, count: int) -> str:
    """The one amount to ask less of, as close to what is asked for as can be, so that so many fit; empty if none is."""
    fitting = {resource: _largest(cluster, location, size, resource, count) for resource in size}
    best = max(fitting, key=lambda resource: fitting[resource] / size[resource], default="")
    return f"{shown(best, fitting[best])} {best}" if best and fitting[best] else ""


def _largest(cluster: Cluster, location: str, size: Amounts, resource: str, count: int) -> int:
    """The largest amount of one resource, the others as they are, with which all fit; 0 when none does."""
    low, high = 0, size[resource] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if room_at(cluster, location, {**size, resource: middle}) >= count:
            low = middle
        else:
            high = middle - 1
    return low


def _listed(size: Amounts) -> str:
    return " and ".join(_one(resource, amount) for resource, amount in size.items())


def _one(resource: str, amount: int) -> str:
    return f"room for {amount} pod" if resource == PODS else f"{shown(resource, amount)} {resource}"
