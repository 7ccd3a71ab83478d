"""The smallest change that gives all waiting instances room on nodes, not only the next one.

Running instances keep their resources: a rollout deletes none of them before the waiting ones are ready. So the
suggested size is the largest at which all waiting instances fit beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tarmac.decide.amounts import CPU, PODS, Amounts, described
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE
from tarmac.decide.qosclasses.counting import Place
from tarmac.decide.scheduling import Cluster, Demand, Pod, open_nodes, places_left, room_at
from tarmac.decide.scheduling.holders import holders_of, to_delete

_WHOLE_CPU: Final = 1000


def either(smaller: str, room: str) -> str:
    """Join the two alternatives into a sentence."""
    return f"Ask for at most {smaller}, or {room}." if smaller else f"{room[0].upper()}{room[1:]}."


def room_to_make(
    cluster: Cluster, location: str, demand: Demand, count: int, may_go: Callable[[Pod], bool] = lambda _: False
) -> str:
    """Return the room to make so that `count` more instances of this demand fit.

    `may_go`: pods that the caller may know and delete; one of them is named if it has a device that is missing.
    """
    own = f", of which {_listed(dict(demand.overhead))} is overhead of the runtime," if demand.overhead else ""
    more = f"make room for {count} more of {_listed(_size(demand))}{own} at {location}"
    return more if count > 1 else _freeing(cluster, location, demand, may_go) or more


def places_to_free(cluster: Cluster, location: str, demand: Demand, count: int) -> str:
    """Return a sentence with the number of places to free for `count` more instances; empty when no class is full."""
    short: dict[Place, int] = {}
    if demand.classes is not None:
        for info in open_nodes(cluster, location):
            short |= {place: count * requested for place, requested, _ in info.missing_places(demand.classes)}
    listed = [
        f"{number} place{'s' if number > 1 else ''} of class {'/'.join(place)}" for place, number in short.items()
    ]
    return f"Free {' and '.join(listed)} at {location}." if listed else ""


def _freeing(cluster: Cluster, location: str, demand: Demand, may_go: Callable[[Pod], bool]) -> str:
    """Return the amounts to free on the node that lacks the least for one more instance."""
    wanted = dict(demand.requests)
    lacks = [
        (info, {name: amount - info.free.get(name, 0) for name, amount in wanted.items()})
        for info in open_nodes(cluster, location)
        if places_left(info, demand.classes) > 0 or info.free[PODS] <= 0
    ]
    if not lacks:
        return ""
    node, lack = min(
        lacks, key=lambda each: (sum(max(0, each[1][name]) / wanted[name] for name in wanted), each[0].node.name)
    )
    short = {name: amount for name, amount in lack.items() if amount > 0}
    holders = sorted({pod.name for name in short for pod in holders_of(name, node) if may_go(pod)})
    return f"free {_listed(short)} on {node.node.name}{to_delete(holders)}" if short else ""


def size_that_fits(cluster: Cluster, location: str, demand: Demand, count: int) -> str:
    """Return the one amount to reduce, as little as possible, so that `count` instances fit; empty if none suffices.

    The amount is the one in the manifest: the overhead of the runtime is added to it.
    """
    size, overhead = _size(demand), dict(demand.overhead)
    fitting = {resource: _largest(cluster, location, demand, resource, count) for resource in size}
    best = max(fitting, key=lambda resource: fitting[resource] / size[resource], default="")
    left = fitting[best] - overhead.get(best, 0) if best else 0
    return described(best, left) if left > 0 else ""


def _largest(cluster: Cluster, location: str, demand: Demand, resource: str, count: int) -> int:
    """Return the largest amount of one resource, all other amounts unchanged, with which all fit; 0 when none does.

    For a pod with exclusive CPUs the amount is a whole number: with a fraction it would get no exclusive CPUs.
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
    """Return the amounts that a manifest can reduce."""
    return {name: amount for name, amount in demand.requests if name not in (PODS, CPU_EXCLUSIVE)}


def _listed(size: Amounts) -> str:
    return " and ".join(described(resource, amount) for resource, amount in size.items())
