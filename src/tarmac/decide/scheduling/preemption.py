"""Who would have to go so that a pod that fits nowhere gets a node, as kube-scheduler decides it.

On each node that could take the pod at all, every pod of lower priority is taken away. If the pod fits then, they come
back one after the other, the most important first (higher priority, then longer running), and those without which it
still fits stay; the others are the victims. Pods whose disruption budget would be broken come back before the others.
Of all nodes the one is chosen that breaks the fewest budgets; then the one whose most important victim matters least,
whose victims matter least in sum, that has the fewest victims, and whose most important victim has run the shortest.

The trial takes pods off the cluster and puts them back, so every filter sees what would be. As many nodes are tried as
a moment allows, from a place that moves on with every turn; while every candidate breaks a budget, more are sought.

A pod that waits for its victims holds its node by a reservation: itself under another uid. For pods of its own
priority and below the place is taken; for one of higher priority it is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelSelector
from tarmac.decide.scheduling.classes import ClassDemand
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters import LABELS, POD_FILTERS, POOL_FILTERS, Check, Filter
from tarmac.decide.scheduling.nodeinfo import NodeInfo

ENOUGH: Final = 32  # candidates: with so many, of which one breaks no budget, the rest of the nodes is not tried
MOST_LOOKED_AT: Final = 1000  # nodes
MOST_MOVED: Final = 2000  # pods that are taken off nodes and put back, some 20 µs each
_STRIDE: Final = 7919  # the next turn begins somewhere else; a prime, so that every node is the first some day
_RESERVED: Final = "nominated/"
_NEVER: Final = "9999"  # after every time that has come
_OFFSET: Final = 1 << 31  # makes every priority count in a sum, also zero and below

Started = Callable[[Pod], str]
"""When a pod was started, as RFC 3339; empty when it was not."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A disruption budget: whom it protects, how many of them may go, and who is going already."""

    namespace: str
    selector: LabelSelector
    allowed: int
    noted: frozenset[str] = frozenset()

    def protects(self, pod: Pod) -> bool:
        """Whether the loss of the pod counts. As in kube-scheduler, neither a budget over everything matters here nor
        any budget to a pod without labels."""
        chosen = pod.labels and not self.selector.everything and pod.namespace == self.namespace
        return bool(chosen) and self.selector.matches(pod.labels) and pod.name not in self.noted


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and who would have to go there, the most important first. `since` is when the most important began."""

    node: str
    victims: tuple[Pod, ...]
    violations: int = 0
    since: str = _NEVER

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """What is compared first: budgets broken, highest priority, sum of priorities, number."""
        priorities = [each.priority + _OFFSET for each in self.victims]
        return self.violations, max(priorities, default=-1), sum(priorities), len(priorities)


def guard_of(budget: JsonObject) -> Guard:
    """The guard behind a PodDisruptionBudget."""
    status: JsonObject = budget.get("status") or {}
    selector = LabelSelector.from_object(budget["spec"].get("selector"))
    noted = frozenset[str](status.get("disruptedPods") or ())
    return Guard(budget["metadata"]["namespace"], selector, status.get("disruptionsAllowed", 0), noted)


def reservation(pod: Pod) -> Pod:
    """What holds a place for a pod."""
    return replace(pod, uid=_RESERVED + pod.uid)


def is_reservation(pod: Pod) -> bool:
    """Whether it only holds a place."""
    return pod.uid.startswith(_RESERVED)


def may_preempt(pod: Pod, cluster: Cluster) -> bool:
    """Whether anybody could have to go for it."""
    return any(priority < pod.priority for priority in cluster.priorities)


def candidates(
    pod: Pod, cluster: Cluster, filters: Iterable[Filter], guards: Sequence[Guard], started: Started, turn: int = 0
) -> Iterator[Candidate]:
    """Where and for whom the pod could get a node. `filters` are those that other pods have no say in."""
    checks = [check for rule in filters if (check := rule.prepare(pod, cluster)) is not None]
    lasting = [check for rule in (*POOL_FILTERS, LABELS) if (check := rule.prepare(pod, cluster)) is not None]
    location = pod.demand.location
    nodes = [info for info in cluster.nodes.values() if not location or info.node.location == location]
    start = turn * _STRIDE % len(nodes) if nodes else 0
    count, moved, harmless = 0, 0, False
    for info in (nodes[start:] + nodes[:start])[:MOST_LOOKED_AT]:
        if any(check(info) is not None for check in lasting):
            continue  # whoever ends here, the node stays what it is
        trial = _Trial(pod, info, cluster, checks)
        candidate = trial.candidate(guards, started)
        moved += trial.moved
        if candidate is not None:
            count, harmless = count + 1, harmless or not candidate.violations
            yield candidate
        # With enough candidates a node that breaks no budget may still come, but nobody waits for ever.
        if moved >= MOST_MOVED or (harmless and count >= ENOUGH):
            return


def best(found: Iterable[Candidate]) -> Candidate | None:
    """The candidate that does the least harm; the first of equals."""
    possible = list(found)
    if not possible:
        return None
    least = min(each.cost for each in possible)
    return max((each for each in possible if each.cost == least), key=lambda each: each.since)


class _Trial:
    """One node without its less important pods. `moved` is how many of them were taken away to see."""

    def __init__(self, pod: Pod, info: NodeInfo, cluster: Cluster, checks: Sequence[Check]) -> None:
        self._pod = pod
        self._info = info
        self._cluster = cluster
        self._checks = checks
        self.moved = 0

    def candidate(self, guards: Sequence[Guard], started: Started) -> Candidate | None:
        """Who would have to go; None when that would not help."""
        lower = [each for each in self._info.pods.values() if each.priority < self._pod.priority]
        if not lower or not self._could_have_room(lower):
            return None
        self.moved = len(lower)
        cluster, name, gains = self._cluster, self._info.node.name, self._cluster.gains
        try:
            for each in lower:
                cluster.remove_pod(each.uid)
            if not self._fits():
                return None
            since = {each.uid: started(each) or _NEVER for each in lower}
            ordered = sorted(lower, key=lambda each: (-each.priority, since[each.uid]))
            return self._least([each for each in ordered if not is_reservation(each)], guards, since)
        finally:
            for each in lower:  # whoever is back already stays as he is
                cluster.add_pod(each, name)
            cluster.gains = gains  # nothing has changed

    def _least(self, ordered: list[Pod], guards: Sequence[Guard], since: Mapping[str, str]) -> Candidate:
        """Let back whoever can stay."""
        broken = _violating(ordered, guards)
        protected_first = sorted(ordered, key=lambda each: each.uid not in broken)  # in their order otherwise
        gone = {each.uid for each in protected_first if not self._can_stay(each)}
        inorder = tuple(each for each in ordered if each.uid in gone)
        top = [since[each.uid] for each in inorder if each.priority == inorder[0].priority]
        return Candidate(self._info.node.name, inorder, len(gone & broken), min(top, default=_NEVER))

    def _can_stay(self, other: Pod) -> bool:
        self._cluster.add_pod(other, self._info.node.name)
        if self._fits():
            return True
        self._cluster.remove_pod(other.uid)
        return False

    def _could_have_room(self, lower: Sequence[Pod]) -> bool:
        """Whether amounts and places add up; spares most nodes the trial."""
        free = dict(self._info.free)
        for each in lower:
            for resource, amount in each.demand.requests:
                free[resource] = free.get(resource, 0) + amount
        if any(free.get(resource, 0) < amount for resource, amount in self._pod.demand.requests):
            return False
        return self._pod.demand.classes is None or self._could_have_places(lower, self._pod.demand.classes)

    def _could_have_places(self, lower: Iterable[Pod], wanted: ClassDemand) -> bool:
        offer, taken = self._info.node.offer, dict(self._info.places)
        for each in lower:
            for place, count in each.demand.classes.on(offer).places if each.demand.classes is not None else ():
                taken[place] -= count
        left = ((taken.get(place, 0) + asked, offer.capacity.get(place)) for place, asked in wanted.on(offer).places)
        return all(capacity is None or needed <= capacity for needed, capacity in left)

    def _fits(self) -> bool:
        """Other pods' say is asked anew each time, since they come and go here."""
        about_pods = (rule.prepare(self._pod, self._cluster) for rule in POD_FILTERS)
        checks = (*self._checks, *(check for check in about_pods if check is not None))
        return all(check(self._info) is None for check in checks)


def _violating(ordered: Iterable[Pod], guards: Sequence[Guard]) -> set[str]:
    """The uids of those whose going a budget would not allow, when they go in this order."""
    left = [guard.allowed for guard in guards]
    found: set[str] = set()
    for pod in ordered:
        for number, guard in enumerate(guards):
            if guard.protects(pod):
                left[number] -= 1
                if left[number] < 0:
                    found.add(pod.uid)
    return found
