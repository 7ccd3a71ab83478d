"""Why no node takes a pod, in one sentence, by kind, and with the smallest change that would help.

The nearest node is the one that the fewest rules refuse, and among those the one that falls short by the least. The
change is for that node, and names everything that refuses the pod there: with it, the answer is yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters import Check, Filter, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.verdict import Refusal

# Reasons from this priority on are told first even if another node is nearer: nothing else helps.
_DECISIVE: Final = 80

Rules = Sequence[tuple[Filter, Check]]


@dataclass(slots=True)
class _Kind:
    """Nodes refused alike."""

    reason: str
    rule: str
    why: Why
    nodes: list[str] = field(default_factory=list[str])


def explain(pod: Pod, cluster: Cluster, filters: Iterable[Filter]) -> tuple[Refusal, ...]:
    """The sum of it, then one refusal for each kind, the most frequent first. Empty if some node takes the pod."""
    location = pod.demand.location
    nodes = [info for info in cluster.nodes.values() if not location or info.node.location == location]
    if not nodes:
        return (_no_nodes(location),)
    rules = [(rule, check) for rule in filters if (check := rule.prepare(pod, cluster)) is not None]
    kinds: dict[tuple[str, str], _Kind] = {}
    nearest: tuple[tuple[int, int, float, str], str, str] | None = None
    for info in nodes:
        verdicts = _verdicts(pod, info, cluster, rules)
        if not verdicts:
            return ()
        rule, reason, why = verdicts[0]
        kinds.setdefault((rule, why.short), _Kind(reason, rule, why)).nodes.append(info.node.name)
        decisive = next((code for _, code, _ in verdicts if reasons.priority(code) >= _DECISIVE), None)
        distance = (0 if decisive else 1, len(verdicts), sum(why.cost for _, _, why in verdicts), info.node.name)
        if nearest is None or distance < nearest[0]:
            nearest = distance, decisive or reason, " and ".join(why.change for _, _, why in verdicts)
    assert nearest is not None
    ordered = sorted(kinds.values(), key=lambda kind: (-len(kind.nodes), kind.why.short))
    return (_sum(location, len(nodes), ordered, nearest[1], nearest[2]), *map(_by_kind, ordered))


def refusals_by_node(pod: Pod, cluster: Cluster, filters: Iterable[Filter]) -> list[Refusal]:
    """Every rule that refuses the pod on every node where it might run, by node; for a table."""
    location = pod.demand.location
    rules = [(rule, check) for rule in filters if (check := rule.prepare(pod, cluster)) is not None]
    return [
        Refusal(reason, _sentence(why.message), name, rule, _sentence(why.change))
        for name, info in sorted(cluster.nodes.items())
        if not location or info.node.location == location
        for rule, reason, why in _verdicts(pod, info, cluster, rules)
    ]


def _verdicts(pod: Pod, info: NodeInfo, cluster: Cluster, rules: Rules) -> list[tuple[str, str, Why]]:
    return [
        (rule.rule, reason, rule.describe(pod, info, cluster))
        for rule, check in rules
        if (reason := check(info)) is not None
    ]


def _sum(location: str, total: int, kinds: Sequence[_Kind], reason: str, change: str) -> Refusal:
    counted = ", ".join(f"{len(kind.nodes)} {kind.why.short}" for kind in kinds)
    where = f" at {location}" if location else ""
    return Refusal(reason, f"0/{total} nodes{where}: {counted}.", location, "nodes", _sentence(change))


def _by_kind(kind: _Kind) -> Refusal:
    where = kind.nodes[0] if len(kind.nodes) == 1 else f"{len(kind.nodes)} nodes"
    return Refusal(kind.reason, _sentence(kind.why.message), where, kind.rule, _sentence(kind.why.change))


def _no_nodes(location: str) -> Refusal:
    if not location:
        return Refusal(reasons.NO_NODES, "No node exists.", "", "nodes", "Add a node.")
    message = f"No node belongs to Location {location}."
    return Refusal(reasons.NO_NODES, message, location, "nodes", f"Add a node to Location {location}.")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
