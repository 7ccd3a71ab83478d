"""The least change with which all instances that wait have room on nodes, not only the next one.

Those that run keep what they hold: a rollout takes none of them away before those that wait are ready. So the size that
is named is the largest at which all that wait fit beside them.
"""

from __future__ import annotations

from typing import Final

from tarmac.decide.classes.counting import Place
from tarmac.decide.processors.exclusive import CPU_EXCLUSIVE
from tarmac.decide.scheduling import Cluster, Demand, open_nodes, places_left, room_at
from tarmac.decide.scheduling.amounts import CPU, PODS, Amounts, shown

_WHOLE_CPU: Final = 1000


def either(smaller: str, room: str) -> str:
    """The two ways out as a sentence."""
    return f"Ask for at most {smaller}, or {room}." if smaller else f"{room[0].upper()}{room[1:]}."


def room_to_make(cluster: Cluster, location: str, demand: Demand, count: int) -> str:
    """What to take away so that so many more like this fit."""
    own = f", {_listed(dict(demand.overhead))} of it overhead of the runtime," if demand.overhead else ""
    more = f"make room for {count} more of {_listed(_size(demand))}{own} at {location}"
    return more if count > 1 else _freeing(cluster, location, demand) or more


def places_to_free(cluster: Cluster, location: str, demand: Demand, count: int) -> str:
    """How many places to take away so that so many more find one, as a sentence; empty when no class is full."""
    short: dict[Place, int] = {}
    if demand.classes is not None:
        for info in open_nodes(cluster, location):
            short |= {place: count * asked for place, asked, _ in info.missing_places(demand.classes)}
    listed = [
        f"{number} place{'s' if number > 1 else ''} of class {'/'.join(place)}" for place, number in short.items()
    ]
    return f"Free {' and '.join(listed)} at {location}." if listed else ""


def _freeing(cluster: Cluster, location: str, demand: Demand) -> str:
    """What to take away from the node that lacks the least for one more."""
    wanted = dict(demand.requests)
    lacks = [
        (info.node.name, {name: amount - info.free.get(name, 0) for name, amount in wanted.items()})
        for info in open_nodes(cluster, location)
        if places_left(info, demand.classes) > 0 or info.free[PODS] <= 0
    ]
    if not lacks:
        return ""
    node, lack = min(lacks, key=lambda each: (sum(max(0, each[1][name]) / wanted[name] for name in wanted), each[0]))
    short = {name: amount for name, amount in lack.items() if amount > 0}
    return f"free {_listed(short)} on {node}" if short else ""


def size_that_fits(cluster: Cluster, location: str, demand: Demand, count: int) -> str:
    """The one amount to ask less of, as close to what is asked for as can be, so that so many fit; empty if none is.

    It is what a manifest says: what the runtime takes for itself comes on top.
    """
    size, overhead = _size(demand), dict(demand.overhead)
    fitting = {resource: _largest(cluster, location, demand, resource, count) for resource in size}
    best = max(fitting, key=lambda resource: fitting[resource] / size[resource], default="")
    left = fitting[best] - overhead.get(best, 0) if best else 0
    return f"{shown(best, left)} {best}" if left > 0 else ""


def _largest(cluster: Cluster, location: str, demand: Demand, resource: str, count: int) -> int:
    """The largest amount of one resource, the others as they are, with which all fit; 0 when none does.

    Who has processors to himself is told whole numbers of them: with a fraction he would have none of his own.
    """
    own = resource == CPU and demand.exclusive and _gives_processors_away(cluster, location)
    whole = _WHOLE_CPU if own else 1
    low, high = 0, -(-_size(demand)[resource] // whole) - 1
    while low < high:
        middle = (low + high + 1) // 2
        smaller = {**dict(demand.requests), resource: middle * whole}
        if own:
            smaller[CPU_EXCLUSIVE] = middle
        if room_at(cluster, location, smaller, demand.classes) >= count:
            low = middle
        else:
            high = middle - 1
    return low * whole


def _gives_processors_away(cluster: Cluster, location: str) -> bool:
    return any(CPU_EXCLUSIVE in info.node.allocatable for info in open_nodes(cluster, location))


def _size(demand: Demand) -> Amounts:
    """What can be asked less of."""
    return {name: amount for name, amount in demand.requests if name not in (PODS, CPU_EXCLUSIVE)}


def _listed(size: Amounts) -> str:
    return " and ".join(_one(resource, amount) for resource, amount in size.items())


def _one(resource: str, amount: int) -> str:
    return f"room for {amount} pod" if resource == PODS else f"{shown(resource, amount)} {resource}"
