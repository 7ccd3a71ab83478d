"""Explains why no node takes a pod: a summary, the kinds of refusals, and the smallest change that would help.

The nearest node is the one with the fewest refusing rules, and among those the one with the smallest shortfall. The
change is for that node and covers every rule that refuses the pod there: with it, the node takes the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters import Check, Filter
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.verdict import Refusal

# These reasons take precedence over a nearer node: no other change helps.
_DECISIVE: Final = frozenset(code for code in reasons.CATALOGUE if reasons.priority(code) >= 80)

Rules = Sequence[tuple[Filter, Check]]


@dataclass(slots=True)
class _Kind:
    """Nodes refused for the same reason: the rule, a short text, their number, and one example."""

    rule: Filter
    reason: str
    words: str
    example: NodeInfo
    count: int = 0


def explain(pod: Pod, cluster: Cluster, filters: Iterable[Filter]) -> tuple[Refusal, ...]:
    """Return a summary, then one refusal per kind, the most frequent first. Empty if some node takes the pod."""
    nodes, rules = _nodes(pod, cluster), _rules(pod, cluster, filters)
    if not nodes:
        return (_no_nodes(pod.demand.location),)
    kinds: dict[tuple[str, str], _Kind] = {}
    nearest, shortest = nodes[0], (2, 0, 0.0, "")
    for info in nodes:
        broken = _broken(info, rules)
        if not broken:
            return ()
        distance = _count(pod, info, cluster, broken, kinds)
        if distance < shortest:
            nearest, shortest = info, distance
    ordered = sorted(kinds.values(), key=lambda kind: (-kind.count, kind.words))
    return (_sum(pod, cluster, nearest, rules, ordered, len(nodes)), *(_alike(pod, cluster, kind) for kind in ordered))


def refusals_by_node(pod: Pod, cluster: Cluster, filters: Iterable[Filter]) -> list[Refusal]:
    """Return every rule that refuses the pod on every node of its Location, by node; for a table."""
    rules = _rules(pod, cluster, filters)
    return [
        _refusal(pod, cluster, info, rule, reason, info.node.name)
        for info in sorted(_nodes(pod, cluster), key=lambda info: info.node.name)
        for rule, reason in _broken(info, rules)
    ]


def _nodes(pod: Pod, cluster: Cluster) -> list[NodeInfo]:
    """Return the nodes of the pod's Location; all nodes if it has none."""
    location = pod.demand.location
    return [info for info in cluster.nodes.values() if not location or info.node.location == location]


def _rules(pod: Pod, cluster: Cluster, filters: Iterable[Filter]) -> Rules:
    return [(rule, check) for rule in filters if (check := rule.prepare(pod, cluster)) is not None]


def _broken(info: NodeInfo, rules: Rules) -> list[tuple[Filter, str]]:
    return [(rule, reason) for rule, check in rules if (reason := check(info)) is not None]


def _count(
    pod: Pod, info: NodeInfo, cluster: Cluster, broken: list[tuple[Filter, str]], kinds: dict[tuple[str, str], _Kind]
) -> tuple[int, int, float, str]:
    """Count the node under the first rule it breaks; return its distance from taking the pod."""
    briefs = [rule.brief(pod, info, cluster) for rule, _ in broken]
    rule, reason = broken[0]
    words = briefs[0].words
    kind = kinds.get((rule.rule, words))
    if kind is None:
        kind = kinds[rule.rule, words] = _Kind(rule, reason, words, info)
    kind.count += 1
    return (0 if _decisive(broken) else 1, len(broken), sum(brief.cost for brief in briefs), info.node.name)


def _decisive(broken: list[tuple[Filter, str]]) -> str | None:
    return next((reason for _, reason in broken if reason in _DECISIVE), None)


def _sum(pod: Pod, cluster: Cluster, nearest: NodeInfo, rules: Rules, kinds: Sequence[_Kind], total: int) -> Refusal:
    """Return the summary as one refusal, with the change for the nearest node."""
    broken = _broken(nearest, rules)
    change = " and ".join(rule.describe(pod, nearest, cluster).change for rule, _ in broken)
    location = pod.demand.location
    where = f" at {location}" if location else ""
    counted = ", ".join(f"{kind.count} {kind.words}" for kind in kinds)
    reason = _decisive(broken) or broken[0][1]
    return Refusal(reason, f"0/{total} nodes{where}: {counted}.", location, "nodes", _sentence(change))


def _alike(pod: Pod, cluster: Cluster, kind: _Kind) -> Refusal:
    where = kind.example.node.name if kind.count == 1 else f"{kind.count} nodes"
    return _refusal(pod, cluster, kind.example, kind.rule, kind.reason, where)


def _refusal(pod: Pod, cluster: Cluster, info: NodeInfo, rule: Filter, reason: str, where: str) -> Refusal:
    why = rule.describe(pod, info, cluster)
    return Refusal(reason, _sentence(why.message), where, rule.rule, _sentence(why.change))


def _no_nodes(location: str) -> Refusal:
    if not location:
        return Refusal(reasons.NO_NODES, "No node exists.", "", "nodes", "Add a node.")
    message = f"No node belongs to Location {location}."
    return Refusal(reasons.NO_NODES, message, location, "nodes", f"Add a node to Location {location}.")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
