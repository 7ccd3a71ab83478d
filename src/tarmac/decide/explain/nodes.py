"""Explains a node: the conditions that are wrong, since when, and which pods remain while it is being drained.

Reasons and messages of conditions are a node's own words: they are bounded, and no decision depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.partial import whereabouts
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.base.duration import human_duration
from tarmac.decide import reasons
from tarmac.decide.explain.answer import explanation, refusal_line
from tarmac.decide.explain.budgets import held_by
from tarmac.decide.snapshot.places import city_of
from tarmac.decide.snapshot.snapshot import NODES, PODS, Snapshot
from tarmac.decide.verdict import Refusal

_MAX_LENGTH: Final = 300  # characters of a node's reason and message
_HEALTHY: Final = {
    "Ready": "True",
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
    "NetworkUnavailable": "False",
    "TunnelsReachable": "True",
    "MachinesReady": "True",
    "GPUsSandboxable": "True",
}


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
    lines = list(_wrong_conditions(node, city, snapshot.now))
    if cordoned:
        lines += _lines(snapshot, pods, city, name)
    return explanation(Subject("v1", "Node", "", name), f"{words}, with {len(pods)} pods on it", lines)


def _wrong_conditions(node: JsonObject, city: str, now: float) -> Iterator[ExplanationLine]:
    """Yield a line for each condition whose status is not the healthy one."""
    name = node["metadata"]["name"]
    for each in node["status"].get("conditions", ()):
        kind, status = each["type"], each["status"]
        if status == _HEALTHY.get(kind, status):
            continue
        own = ": ".join(filter(None, (each.get("reason", ""), each.get("message", ""))))[:_MAX_LENGTH]
        message = f"{kind} is {status}{_since(each, now)}{f': {own}' if own else ''}"
        if kind != "Ready":
            yield refusal_line(Refusal(reasons.NODE_CONDITION, message, rule=kind.lower()), city, name)
        elif status == "Unknown":  # set by the node controller: the agent reports no longer
            change = f"Start {name} or its agent; if the host is lost: tarmac node remove {name}."
            yield refusal_line(Refusal(reasons.NODE_NOT_READY, message, rule="ready", change=change), city, name)
        else:
            yield refusal_line(Refusal(reasons.NODE_NOT_READY, message, rule="ready"), city, name)


def _since(condition: JsonObject, now: float) -> str:
    try:
        return f" for {human_duration(max(0.0, now - parse_rfc3339(condition.get('lastTransitionTime') or '')))}"
    except ValueError:
        return ""


def _lines(snapshot: Snapshot, pods: list[JsonObject], city: str, node: str) -> Iterator[ExplanationLine]:
    """Yield lines for pods that are being deleted and for pods that a budget protects from eviction."""
    for pod in pods:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if "deletionTimestamp" in pod["metadata"]:
            yield refusal_line(Refusal(reasons.TERMINATING, f"{key} is being deleted.", rule="deletion"), city, node)
        refusal = held_by(snapshot, pod)
        if refusal is not None:
            yield refusal_line(replace(refusal, message=f"{key}: {refusal.message}"), city, node)
