"""Chooses a node for a pod.

For each template the scheduler computes once which pools its pods can use. A pod is then checked against a few nodes of
those pools, the emptiest first, from an offset in the bucket that advances with every turn; the best of the first few
that pass all filters wins. So the cost per pod does not depend on the number of nodes, and consecutive pods go to
different nodes. Only if no node passes are all nodes checked, for the explanation; that result is cached until a change
that could alter it.

The choice is a function of the cluster, the pod and the turn. The scheduler itself only caches results.

A node whose check or score raises an exception counts as unsuitable: it must not keep pods from the other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Demand, Pod
from tarmac.decide.scheduling.explain import explain, refusals_by_node
from tarmac.decide.scheduling.filters import LABELS, NODE_FILTERS, POD_FILTERS, POOL_FILTERS, Check, Filter
from tarmac.decide.scheduling.levels import LeastLevel
from tarmac.decide.scheduling.nodeinfo import NodeInfo, NodePool
from tarmac.decide.scheduling.preemption import Guard, PreemptionCandidate, Started, best, candidates
from tarmac.decide.scheduling.scorers import DEMAND_SCORERS, POD_SCORERS, Score, Scorer
from tarmac.decide.verdict import Refusal, Verdict

SAMPLE: Final = 8
WIDE_SAMPLE: Final = 64  # if a scorer prefers nodes for more than being empty
_PLANS: Final = 4096

OnFailure = Callable[[str, Exception], None]
"""Called with the node and the exception of a filter or scorer."""


class TemplateFeasibility:
    """Cached plan of a template: the pools and nodes its pods can use, prepared checks and scores."""

    __slots__ = ("checks", "least", "named", "pools", "refused", "refused_at", "sample", "scores", "shape")

    def __init__(self, demand: Demand, shape: int) -> None:
        self.shape = shape
        self.least = LeastLevel(demand.cpu, demand.memory, demand.exclusive)
        self.pools: list[tuple[NodePool, int]] = []  # each with the bits of the classes that must be free on its nodes
        self.named: list[NodeInfo] | None = None  # the only nodes that can match, if the pod names nodes
        self.checks: tuple[Check, ...] = ()
        self.scores: tuple[Score, ...] = ()
        self.sample = SAMPLE
        self.refused: Verdict[str] | None = None
        self.refused_at = -1


class Scheduler:
    """Chooses nodes on a cluster that the caller keeps current. `filters` and `scorers` extend the built-in ones."""

    def __init__(
        self,
        cluster: Cluster,
        filters: Sequence[Filter] = (),
        scorers: Sequence[Scorer] = (),
        on_failure: OnFailure = lambda _node, _error: None,
    ) -> None:
        self.cluster = cluster
        self._on_failure = on_failure
        self._node_filters = (*NODE_FILTERS, *filters)
        self._scorers = (*DEMAND_SCORERS, *scorers)
        self._plans: dict[Demand, TemplateFeasibility] = {}

    def choose(self, pod: Pod, turn: int = 0) -> Verdict[str]:
        """Return the node for a pod, or why there is none. `turn` is a counter that the caller increments."""
        plan = self._plan(pod)
        cluster = self.cluster
        if plan.refused is not None and plan.refused_at == cluster.gains:
            return plan.refused
        checks = plan.checks
        for rule in POD_FILTERS:
            check = rule.prepare(pod, cluster)
            if check is not None:
                checks = (*checks, check)
        found = _offered(plan, checks, turn, self._on_failure)
        if found:
            return Verdict((found[0] if len(found) == 1 else self._best(plan, pod, found)).node.name)
        refused: Verdict[str] = Verdict(None, self.explain(pod))
        if checks is plan.checks:  # independent of other pods, so valid for the whole template
            plan.refused, plan.refused_at = refused, cluster.gains
        return refused

    def explain(self, pod: Pod) -> tuple[Refusal, ...]:
        """Return why no node takes the pod: a summary, then each kind of refusal with an example."""
        return explain(pod, self.cluster, self._filters())

    def refusals(self, pod: Pod) -> list[Refusal]:
        """Return every rule that refuses the pod, node by node."""
        return refusals_by_node(pod, self.cluster, self._filters())

    def takes(self, pod: Pod, name: str) -> bool:
        """Return True if a given node takes the pod."""
        info = self.cluster.nodes.get(name)
        return info is not None and not _refuses(_prepared(self._filters(), pod, self.cluster), info)

    def preempt(self, pod: Pod, guards: Sequence[Guard], started: Started, turn: int = 0) -> PreemptionCandidate | None:
        """Return the best node and victims for a pod that no node takes; None if preemption would not help."""
        filters = (*POOL_FILTERS, LABELS, *self._node_filters)
        return best(candidates(pod, self.cluster, filters, guards, started, turn))

    def _best(self, plan: TemplateFeasibility, pod: Pod, found: list[NodeInfo]) -> NodeInfo:
        """Return the node with the highest sum of scores; the first of equals."""
        scores = plan.scores
        for scorer in POD_SCORERS:
            score = scorer.prepare(pod, self.cluster)
            if score is not None:
                scores = (*scores, score)
        best, most = found[0], float("-inf")
        for info in found:
            total = 0.0
            try:
                for score in scores:
                    total += score(info)
            except Exception as error:
                self._on_failure(info.node.name, error)
                continue
            if total > most:
                best, most = info, total
        return best

    def _plan(self, pod: Pod) -> TemplateFeasibility:
        plan = self._plans.get(pod.demand)
        if plan is None or plan.shape != self.cluster.shape:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[pod.demand] = self._planned(pod)
        return plan

    def _planned(self, pod: Pod) -> TemplateFeasibility:
        cluster, demand = self.cluster, pod.demand
        chosen = demand.nodes
        by_pool = chosen is None or cluster.pools_agree_on(chosen.keys)
        plan = TemplateFeasibility(demand, cluster.shape)
        common = _prepared((*POOL_FILTERS, LABELS) if by_pool else POOL_FILTERS, pod, cluster)
        plan.checks = _prepared(self._node_filters if by_pool else (LABELS, *self._node_filters), pod, cluster)
        plan.pools = [
            (pool, _class_bits(demand, pool)) for pool in cluster.pools.values() if not _refuses(common, pool.example)
        ]
        plan.named = _named(demand, cluster)
        if plan.named is not None:
            plan.checks = (*common, *plan.checks)
        prepared = [(scorer, scorer.prepare(pod, cluster)) for scorer in self._scorers]
        plan.scores = tuple(score for _, score in prepared if score is not None)
        picky = demand.preferred_pods or any(scorer.picky for scorer, score in prepared if score is not None)
        plan.sample = WIDE_SAMPLE if picky else SAMPLE
        return plan

    def _filters(self) -> tuple[Filter, ...]:
        return (*POOL_FILTERS, LABELS, *self._node_filters, *POD_FILTERS)


def _prepared(filters: Iterable[Filter], pod: Pod, cluster: Cluster) -> tuple[Check, ...]:
    checks = (rule.prepare(pod, cluster) for rule in filters)
    return tuple(check for check in checks if check is not None)


def _refuses(checks: Iterable[Check], info: NodeInfo) -> bool:
    return any(check(info) is not None for check in checks)


def _passes(checks: Iterable[Check], info: NodeInfo, on_failure: OnFailure) -> bool:
    try:
        for check in checks:
            if check(info) is not None:
                return False
    except Exception as error:
        on_failure(info.node.name, error)
        return False
    return True


def _class_bits(demand: Demand, pool: NodePool) -> int:
    offer = pool.example.node.offer
    return offer.bits(demand.classes.on(offer)) if demand.classes is not None else 0


def _named(demand: Demand, cluster: Cluster) -> list[NodeInfo] | None:
    """Return the nodes that the pod or one of its disks names, sorted by name; None if neither names any."""
    choices = [demand.nodes, *(disk.nodes for disk in demand.disks)]
    pins = [choice.pinned for choice in choices if choice is not None and choice.pinned is not None]
    if not pins:
        return None
    return [info for name in sorted(min(pins, key=len)) for info in cluster.named(name)]


def _offered(plan: TemplateFeasibility, checks: Sequence[Check], turn: int, on_failure: OnFailure) -> list[NodeInfo]:
    """Return the first few nodes that pass."""
    if plan.named is not None:
        return [info for info in plan.named if _passes(checks, info, on_failure)]
    pools, found = plan.pools, list[NodeInfo]()
    count = len(pools)
    for step in range(count):
        # Every pool gets its share of the sample, so that nodes of several pools are compared.
        wanted = min(plan.sample, len(found) + max(1, plan.sample // count))
        pool, classes = pools[(turn + step) % count]
        _offered_by(pool, classes, plan, checks, turn, wanted, found, on_failure)
        if len(found) >= plan.sample:
            break
    return found


def _offered_by(
    pool: NodePool,
    classes: int,
    plan: TemplateFeasibility,
    checks: Sequence[Check],
    turn: int,
    wanted: int,
    found: list[NodeInfo],
    on_failure: OnFailure,
) -> None:
    """Append passing nodes of one pool to `found` until it has `wanted` entries."""
    least = plan.least
    for level in pool.order:
        if level < least.smallest:
            return
        if least.misses(level, classes):
            continue
        bucket = pool.buckets[level]
        size = len(bucket)
        start = turn % size  # windows overlap, so most nodes for the next pod are in the CPU cache
        for position in range(start, start + size):
            info = bucket[position - size]  # wraps round: the first half is counted from the end
            try:
                for check in checks:  # not _passes: a call for each node takes a tenth of the time
                    if check(info) is not None:
                        break
                else:
                    found.append(info)
                    if len(found) >= wanted:
                        return
            except Exception as error:
                on_failure(info.node.name, error)
