"""Explains which pods remain on a node that is being drained, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.partial import whereabouts
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.explain.answer import explanation, told
from tarmac.decide.explain.budgets import held_by
from tarmac.decide.snapshot.places import city_of
from tarmac.decide.snapshot.snapshot import NODES, PODS, Snapshot
from tarmac.decide.verdict import Refusal


def explain_node(snapshot: Snapshot, name: str) -> Explanation | None:
    """Return the explanation of a node; None when it does not exist."""
    node = NODES.get(snapshot, name)
    if node is None:
        return None
    pods = [PODS.decode(raw) for raw in snapshot.list(PODS.resource) if whereabouts(raw).spec.node_name == name]
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))
    cordoned = bool(node["spec"].get("unschedulable"))
    words = f"is {'ready' if ready else 'not ready'}{' and cordoned' if cordoned else ''}"
    city = city_of(snapshot, (node["metadata"].get("labels") or {}).get(LABEL_LOCATION, ""))
    lines = list(_lines(snapshot, pods, city, name)) if cordoned else []
    return explanation(Subject("v1", "Node", "", name), f"{words}, with {len(pods)} pods on it", lines)


def _lines(snapshot: Snapshot, pods: list[JsonObject], city: str, node: str) -> Iterator[ExplanationLine]:
    """Yield lines for pods that are being deleted and for pods that a budget protects from eviction."""
    for pod in pods:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if "deletionTimestamp" in pod["metadata"]:
            yield told(Refusal(reasons.TERMINATING, f"{key} is being deleted.", rule="deletion"), city, node)
        refusal = held_by(snapshot, pod)
        if refusal is not None:
            yield told(replace(refusal, message=f"{key}: {refusal.message}"), city, node)
