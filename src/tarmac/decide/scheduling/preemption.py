"""Selects preemption victims for a pod that fits on no node, by the rules of kube-scheduler.

On each node that could take the pod at all, every pod of lower priority is removed. If the pod fits then, the removed
pods are put back one by one, the most important first (higher priority, then longer running). Pods that fit beside it
stay; the rest are the victims. Pods protected by an exhausted disruption budget are put back before all other pods. The
chosen node breaks the fewest budgets; ties are resolved by the lowest priority of the most important victim, the lowest
sum of priorities, the fewest victims, and the latest start of the most important victim.

The trial removes pods from the cluster and puts them back, so every filter sees the resulting state. The number of
tried nodes is limited, from an offset that advances with every turn; while every candidate breaks a budget, more nodes
are tried.

A pod that waits for its victims holds its node by a reservation: a copy of itself under a different uid. It occupies
the node for pods of the same or lower priority, not for pods of higher priority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelMatcher
from tarmac.decide.scheduling.classdemand import ClassDemand
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters import LABELS, POD_FILTERS, POOL_FILTERS, Check, Filter
from tarmac.decide.scheduling.nodeinfo import NodeInfo

ENOUGH: Final = 32  # candidates after which the search ends, if one of them breaks no budget
MAX_TRIED: Final = 1000  # limit of tried nodes
MAX_MOVED: Final = 2000  # limit of pods removed and put back, about 20 µs each
_STRIDE: Final = 7919  # offset between turns; a prime, so that every node eventually comes first
_RESERVED: Final = "nominated/"
_NEVER: Final = "9999"  # sorts after every timestamp
_OFFSET: Final = 1 << 31  # makes every priority positive, so that each victim adds to the sum

Started = Callable[[Pod], str]
"""Returns a pod's start time as RFC 3339; empty if it has not started."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A disruption budget: the pods it protects, the allowed disruptions, and the pods already being disrupted."""

    namespace: str
    selector: LabelMatcher
    allowed: int
    noted: frozenset[str] = frozenset()

    def protects(self, pod: Pod) -> bool:
        """Return True if the loss of the pod counts against the budget.

        As in kube-scheduler, a budget that selects everything is ignored, and a pod without labels has no budget.
        """
        chosen = pod.labels and not pod.mirror and not self.selector.everything and pod.namespace == self.namespace
        return bool(chosen) and self.selector.matches(pod.labels) and pod.name not in self.noted


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node and its victims, the most important first. `since` is the start time of the most important victim."""

    node: str
    victims: tuple[Pod, ...]
    violations: int = 0
    since: str = _NEVER

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """Primary sort key: broken budgets, highest priority, sum of priorities, number of victims."""
        priorities = [each.priority + _OFFSET for each in self.victims]
        return self.violations, max(priorities, default=-1), sum(priorities), len(priorities)


def guard_of(budget: JsonObject) -> Guard:
    """Return the guard of a PodDisruptionBudget."""
    status: JsonObject = budget.get("status") or {}
    selector = LabelMatcher.from_object(budget["spec"].get("selector"))
    noted = frozenset[str](status.get("disruptedPods") or ())
    return Guard(budget["metadata"]["namespace"], selector, status.get("disruptionsAllowed", 0), noted)


def reservation(pod: Pod) -> Pod:
    """Return the reservation of a pod."""
    return replace(pod, uid=_RESERVED + pod.uid)


def is_reservation(pod: Pod) -> bool:
    """Return True for a reservation."""
    return pod.uid.startswith(_RESERVED)


def may_preempt(pod: Pod, cluster: Cluster) -> bool:
    """Return True if a pod of lower priority exists."""
    return any(priority < pod.priority for priority in cluster.priorities)


def candidates(
    pod: Pod, cluster: Cluster, filters: Iterable[Filter], guards: Sequence[Guard], started: Started, turn: int = 0
) -> Iterator[PreemptionCandidate]:
    """Yield the nodes where preemption would make the pod fit. `filters` are those that do not depend on other pods."""
    checks = [check for rule in filters if (check := rule.prepare(pod, cluster)) is not None]
    lasting = [check for rule in (*POOL_FILTERS, LABELS) if (check := rule.prepare(pod, cluster)) is not None]
    location = pod.demand.location
    nodes = [info for info in cluster.nodes.values() if not location or info.node.location == location]
    start = turn * _STRIDE % len(nodes) if nodes else 0
    count, moved, harmless = 0, 0, False
    for info in (nodes[start:] + nodes[:start])[:MAX_TRIED]:
        if any(check(info) is not None for check in lasting):
            continue  # preemption does not change these properties of the node
        trial = _Trial(pod, info, cluster, checks)
        candidate = trial.candidate(guards, started)
        moved += trial.moved
        if candidate is not None:
            count, harmless = count + 1, harmless or not candidate.violations
            yield candidate
        # While every candidate breaks a budget the search goes on, up to the limit of moved pods.
        if moved >= MAX_MOVED or (harmless and count >= ENOUGH):
            return


def best(found: Iterable[PreemptionCandidate]) -> PreemptionCandidate | None:
    """Return the candidate with the lowest cost; the first of equals."""
    possible = list(found)
    if not possible:
        return None
    least = min(each.cost for each in possible)
    return max((each for each in possible if each.cost == least), key=lambda each: each.since)


class _Trial:
    """A trial of one node without its lower-priority pods. `moved` counts the pods that were removed for it."""

    def __init__(self, pod: Pod, info: NodeInfo, cluster: Cluster, checks: Sequence[Check]) -> None:
        self._pod = pod
        self._info = info
        self._cluster = cluster
        self._checks = checks
        self.moved = 0

    def candidate(self, guards: Sequence[Guard], started: Started) -> PreemptionCandidate | None:
        """Return the victims; None if preemption would not help. The cluster is restored in any case."""
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
            for each in lower:  # a no-op for pods that are back already
                cluster.add_pod(each, name)
            cluster.gains = gains  # the cluster is restored, so cached refusals stay valid

    def _least(self, ordered: list[Pod], guards: Sequence[Guard], since: Mapping[str, str]) -> PreemptionCandidate:
        """Put back every pod that fits beside the new one; return the rest as victims."""
        broken = _violating(ordered, guards)
        protected_first = sorted(ordered, key=lambda each: each.uid not in broken)  # a stable sort
        gone = {each.uid for each in protected_first if not self._can_stay(each)}
        inorder = tuple(each for each in ordered if each.uid in gone)
        top = [since[each.uid] for each in inorder if each.priority == inorder[0].priority]
        return PreemptionCandidate(self._info.node.name, inorder, len(gone & broken), min(top, default=_NEVER))

    def _can_stay(self, other: Pod) -> bool:
        self._cluster.add_pod(other, self._info.node.name)
        if self._fits():
            return True
        self._cluster.remove_pod(other.uid)
        return False

    def _could_have_room(self, lower: Sequence[Pod]) -> bool:
        """Return True if resources and class places add up; spares most nodes the costly trial."""
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
        left = (
            (taken.get(place, 0) + requested, offer.capacity.get(place)) for place, requested in wanted.on(offer).places
        )
        return all(capacity is None or needed <= capacity for needed, capacity in left)

    def _fits(self) -> bool:
        """Return True if the pod fits now. Filters on other pods are prepared anew, because the trial moves pods."""
        about_pods = (rule.prepare(self._pod, self._cluster) for rule in POD_FILTERS)
        checks = (*self._checks, *(check for check in about_pods if check is not None))
        return all(check(self._info) is None for check in checks)


def _violating(ordered: Iterable[Pod], guards: Sequence[Guard]) -> set[str]:
    """Return the uids of pods that exceed a budget's allowed disruptions if they are evicted in this order."""
    left = [guard.allowed for guard in guards]
    found: set[str] = set()
    for pod in ordered:
        for number, guard in enumerate(guards):
            if guard.protects(pod):
                left[number] -= 1
                if left[number] < 0:
                    found.add(pod.uid)
    return found
