"""Counts of pods per topology domain, for spreading and for pod affinity.

A `PodTally` is created by a full count when the first pod needs it, and is then updated pod by pod. It maintains the
lowest count of all domains, so no scan is needed. Tallies are indexed by a label that their pods must have, so a pod
without a matching tally costs nothing.

Pods with required anti-affinity are counted too (`carriers`), because new pods must respect it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import Node, NodeInfo
from tarmac.decide.scheduling.nodeterms import NodeChoice
from tarmac.decide.scheduling.podterms import PodTerm

_KEPT: Final = 512


class PodTally:
    """Pods per value of a node label, over the nodes of a scope (None: all)."""

    __slots__ = ("_frequency", "_nodes", "counts", "least", "scope", "term")

    def __init__(self, term: PodTerm, scope: NodeChoice | None, location: str = "") -> None:
        self.term = term
        self.scope = _scope(scope, location)
        self.counts: dict[str, int] = {}
        self.least = 0
        self._nodes: dict[str, int] = {}  # nodes per domain
        self._frequency: dict[int, int] = {}  # domains per count

    def domain(self, node: Node) -> str | None:
        """Return the domain of a node; None if the node is out of scope."""
        value = node.labels.get(self.term.topology_key)
        return value if value is not None and self.scope(node) else None

    def node_added(self, node: Node) -> None:
        """Count a new node. The first node of a domain creates the domain."""
        domain = self.domain(node)
        if domain is None:
            return
        self._nodes[domain] = self._nodes.get(domain, 0) + 1
        if self._nodes[domain] == 1:
            self.counts[domain] = 0
            self._frequency[0] = self._frequency.get(0, 0) + 1
            self.least = 0

    def node_removed(self, node: Node) -> None:
        """Remove a node. The last node of a domain removes the domain. The node's pods must be removed before."""
        domain = self.domain(node)
        if domain is None:
            return
        self._nodes[domain] -= 1
        if not self._nodes[domain]:
            del self._nodes[domain]
            self._leave(self.counts.pop(domain))

    def step(self, node: Node, change: int) -> None:
        """Count a pod that was added to a node (+1) or removed from it (-1)."""
        domain = self.domain(node)
        if domain is None:
            return
        count = self.counts[domain]
        self.counts[domain] = count + change
        self._frequency[count + change] = self._frequency.get(count + change, 0) + 1
        self.least = min(self.least, count + change)
        self._leave(count)

    def _leave(self, count: int) -> None:
        """Remove one domain from this count; the lowest count may rise."""
        self._frequency[count] -= 1
        if not self._frequency[count]:
            del self._frequency[count]
            if count == self.least:
                self.least = min(self._frequency, default=0)


def _scope(choice: NodeChoice | None, location: str) -> Callable[[Node], bool]:
    def within(node: Node) -> bool:
        return (not location or node.location == location) and (
            choice is None or choice.matches(node.name, node.labels)
        )

    return within


class Census:
    """All tallies of a cluster."""

    def __init__(self, nodes: dict[str, NodeInfo]) -> None:
        self._cluster = nodes
        self._tallies: dict[tuple[PodTerm, str, str], PodTally] = {}
        self._found_by = _ByLabel()
        self._carriers: dict[PodTerm, PodTally] = {}
        self._avoided_by = _ByLabel()

    def tally(self, term: PodTerm, scope: NodeChoice | None = None, location: str = "") -> PodTally:
        """Return the tally of a term, created on first use. Beyond a limit the oldest tally is dropped."""
        key = (term, "" if scope is None else scope.text, location)
        tally = self._tallies.get(key)
        if tally is None:
            if len(self._tallies) >= _KEPT:
                oldest = next(iter(self._tallies))
                self._found_by.remove(self._tallies.pop(oldest))
            tally = self._tallies[key] = self._counted(PodTally(term, scope, location))
            self._found_by.add(tally)
        return tally

    def avoiding(self, pod: Pod) -> list[PodTally]:
        """Return the tallies of pods with anti-affinity to this one."""
        if not self._carriers:
            return []
        return [tally for tally in self._avoided_by.of(pod) if tally.term.matches(pod.namespace, pod.labels)]

    def node_added(self, info: NodeInfo) -> None:
        """Add a node without pods."""
        for tally in self._all():
            tally.node_added(info.node)

    def node_removed(self, info: NodeInfo) -> None:
        """Remove a node after its pods have been removed."""
        for tally in self._all():
            tally.node_removed(info.node)

    def pod_added(self, pod: Pod, node: Node) -> None:
        """Count a pod that was added to a node."""
        if pod.mirror:
            return
        self._step(pod, node, 1)
        for term in pod.demand.apart:
            self._carrier(term).step(node, 1)

    def pod_removed(self, pod: Pod, node: Node) -> None:
        """Count a pod that was removed from a node."""
        if pod.mirror:
            return
        self._step(pod, node, -1)
        for term in pod.demand.apart:
            self._carrier(term).step(node, -1)

    def _step(self, pod: Pod, node: Node, change: int) -> None:
        if self._tallies:
            for tally in self._found_by.of(pod):
                if tally.term.matches(pod.namespace, pod.labels):
                    tally.step(node, change)

    def _all(self) -> Iterable[PodTally]:
        return (*self._tallies.values(), *self._carriers.values())

    def _carrier(self, term: PodTerm) -> PodTally:
        tally = self._carriers.get(term)
        if tally is None:
            tally = self._carriers[term] = PodTally(term, None)
            for info in self._cluster.values():
                tally.node_added(info.node)
            self._avoided_by.add(tally)
        return tally

    def _counted(self, tally: PodTally) -> PodTally:
        for info in self._cluster.values():
            tally.node_added(info.node)
            for pod in info.pods.values():
                if not pod.mirror and tally.term.matches(pod.namespace, pod.labels):
                    tally.step(info.node, 1)
        return tally


class _ByLabel:
    """Tallies indexed by a label that their pods must have; tallies without such a label are always checked."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[PodTally]] = {}
        self._others: list[PodTally] = []

    def add(self, tally: PodTally) -> None:
        self._list(tally).append(tally)

    def remove(self, tally: PodTally) -> None:
        self._list(tally).remove(tally)

    def of(self, pod: Pod) -> Iterator[PodTally]:
        for label in pod.labels.items():
            yield from self._by_label.get(label, ())
        yield from self._others

    def _list(self, tally: PodTally) -> list[PodTally]:
        for requirement in tally.term.selector.requirements:
            if requirement.operator in {"=", "==", "in"} and len(requirement.values) == 1:
                return self._by_label.setdefault((requirement.key, requirement.values[0]), [])
        return self._others
