"""Why no node takes a pod, in one sentence, by kind, and with the smallest change that would help.

The nearest node is the one that the fewest rules refuse, and among those the one that falls short by the least. The
change is for that node, and names everything that refuses the pod there: with it, the answer is yes.
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

# These are told first even if another node is nearer: nothing else helps.
_DECISIVE: Final = frozenset(code for code in reasons.CATALOGUE if reasons.priority(code) >= 80)

Rules = Sequence[tuple[Filter, Check]]


@dataclass(slots=True)
class _Kind:
    """Nodes refused alike: by which rule, in few words, how many, and one of them."""

    rule: Filter
    reason: str
    words: str
    example: NodeInfo
    count: int = 0


def explain(pod: Pod, cluster: Cluster, filters: Iterable[Filter]) -> tuple[Refusal, ...]:
    """The sum of it, then one refusal for each kind, the most frequent first. Empty if some node takes the pod."""
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
    """Every rule that refuses the pod on every node where it might run, by node; for a table."""
    rules = _rules(pod, cluster, filters)
    return [
        _refusal(pod, cluster, info, rule, reason, info.node.name)
        for info in sorted(_nodes(pod, cluster), key=lambda info: info.node.name)
        for rule, reason in _broken(info, rules)
    ]


def _nodes(pod: Pod, cluster: Cluster) -> list[NodeInfo]:
    """The nodes that come into question: those of the pod's Location."""
    location = pod.demand.location
    return [info for info in cluster.nodes.values() if not location or info.node.location == location]


def _rules(pod: Pod, cluster: Cluster, filters: Iterable[Filter]) -> Rules:
    return [(rule, check) for rule in filters if (check := rule.prepare(pod, cluster)) is not None]


def _broken(info: NodeInfo, rules: Rules) -> list[tuple[Filter, str]]:
    return [(rule, reason) for rule, check in rules if (reason := check(info)) is not None]


def _count(
    pod: Pod, info: NodeInfo, cluster: Cluster, broken: list[tuple[Filter, str]], kinds: dict[tuple[str, str], _Kind]
) -> tuple[int, int, float, str]:
    """Count the node under the first rule it breaks; how far it is from taking the pod."""
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
    """All of it in one refusal, with the change for the nearest node."""
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
