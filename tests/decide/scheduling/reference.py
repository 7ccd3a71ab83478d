"""The nodes that may take a pod, computed slowly from the objects alone: the reference for property tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tarmac.base.quantity import Quantity

from .world import Json

Bound = Mapping[str, tuple[Json, str]]
"""Pods by name, with the node of each."""


def feasible(pod: Json, nodes: Mapping[str, Json], bound: Bound) -> set[str]:
    """Return the nodes that break no rule."""
    return {name for name in nodes if not broken(pod, nodes[name], nodes, bound)}


def broken(pod: Json, node: Json, nodes: Mapping[str, Json], bound: Bound) -> set[str]:
    """Return the rules that a node breaks."""
    return {
        rule
        for rule, holds in {
            "resources": _fits(pod, node, bound),
            "taints": all(_tolerated(pod, taint) for taint in node["spec"]["taints"]),
            "cordon": not node["spec"]["unschedulable"],
            "labels": _selected(pod, node),
            "ports": _ports_free(pod, node, bound),
            "spread": _even(pod, node, nodes, bound),
            "podaffinity": _near(pod, node, nodes, bound) and _apart(pod, node, nodes, bound),
        }.items()
        if not holds
    }


def asked(pod: Json) -> Counter[str]:
    """Return the requests of a pod of one container, in thousandths."""
    amounts = pod["spec"]["containers"][0]["resources"]["requests"]
    return Counter({name: Quantity.parse(text).milli() for name, text in amounts.items()} | {"pods": 1000})


def left(node: Json, bound: Bound) -> Counter[str]:
    """Return the free amounts of a node, in thousandths."""
    free = Counter({name: Quantity.parse(text).milli() for name, text in node["status"]["allocatable"].items()})
    for pod, where in bound.values():
        if where == node["metadata"]["name"]:
            free.subtract(asked(pod))
    return free


def _fits(pod: Json, node: Json, bound: Bound) -> bool:
    free = left(node, bound)
    return all(free[name] >= amount for name, amount in asked(pod).items() if amount)


def _tolerated(pod: Json, taint: Json) -> bool:
    keys = {toleration["key"] for toleration in pod["spec"].get("tolerations", ())}
    return taint["effect"] == "PreferNoSchedule" or taint["key"] in keys


def _selected(pod: Json, node: Json) -> bool:
    return (pod["spec"].get("nodeSelector") or {}).items() <= node["metadata"]["labels"].items()


def _ports_free(pod: Json, node: Json, bound: Bound) -> bool:
    here = [other for other, where in bound.values() if where == node["metadata"]["name"]]
    return not _ports(pod) & set[int]().union(*(_ports(other) for other in here))


def _ports(pod: Json) -> set[int]:
    return {port["hostPort"] for port in pod["spec"]["containers"][0]["ports"]}


def _domain(node: Json, key: str) -> str | None:
    return node["metadata"]["labels"].get(key)


def _matches(term: Json, pod: Json) -> bool:
    return term["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def _even(pod: Json, node: Json, nodes: Mapping[str, Json], bound: Bound) -> bool:
    for constraint in pod["spec"].get("topologySpreadConstraints", ()):
        key = constraint["topologyKey"]
        within = {name: obj for name, obj in nodes.items() if _selected(pod, obj) and _domain(obj, key) is not None}
        counts = {_domain(obj, key): 0 for obj in within.values()}
        for other, where in bound.values():
            if where in within and _matches(constraint, other):
                counts[_domain(nodes[where], key)] += 1
        domain = _domain(node, key)
        least = min(counts.values(), default=0)
        # A node that the pod does not select has an empty domain; another rule refuses it.
        if domain is None or counts.get(domain, 0) + _matches(constraint, pod) - least > constraint["maxSkew"]:
            return False
    return True


def _terms(pod: Json, kind: str) -> list[Json]:
    relation = pod["spec"].get("affinity", {}).get(kind, {})
    return relation.get("requiredDuringSchedulingIgnoredDuringExecution", [])


def _there(term: Json, domain: str | None, nodes: Mapping[str, Json], bound: Bound) -> bool:
    """Return True if a pod of the term is in the domain."""
    return any(
        _matches(term, other) and where in nodes and _domain(nodes[where], term["topologyKey"]) == domain
        for other, where in bound.values()
    )


def _near(pod: Json, node: Json, nodes: Mapping[str, Json], bound: Bound) -> bool:
    terms = _terms(pod, "podAffinity")
    if any(_domain(node, term["topologyKey"]) is None for term in terms):
        return False
    domains = {_domain(obj, term["topologyKey"]) for term in terms for obj in nodes.values()} - {None}
    if all(_matches(term, pod) for term in terms) and not any(
        _there(term, domain, nodes, bound) for term in terms for domain in domains
    ):
        return True
    return all(_there(term, _domain(node, term["topologyKey"]), nodes, bound) for term in terms)


def _apart(pod: Json, node: Json, nodes: Mapping[str, Json], bound: Bound) -> bool:
    for term in _terms(pod, "podAntiAffinity"):
        domain = _domain(node, term["topologyKey"])
        if domain is not None and _there(term, domain, nodes, bound):
            return False
    carried = [(term, where) for other, where in bound.values() for term in _terms(other, "podAntiAffinity")]
    return not any(
        where in nodes and _matches(term, pod) and _same_domain(node, nodes[where], term["topologyKey"])
        for term, where in carried
    )


def _same_domain(one: Json, other: Json, key: str) -> bool:
    return _domain(one, key) is not None and _domain(one, key) == _domain(other, key)
