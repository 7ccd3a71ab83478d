"""The time at which a pod is evicted from a failed node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.base.duration import format_duration
from tarmac.decide.nodes import NO_EXECUTE, TaintToleration, stays


def outlook(node: str, known: JsonObject | None, pod: JsonObject, now: float) -> str:
    """Return a sentence about the future of a pod on a node that no longer reports."""
    if known is None:
        return f"Node {node} does not exist any more."
    taints = [taint for taint in known["spec"].get("taints") or () if taint["effect"] == NO_EXECUTE]
    if not taints:
        return f"Node {node} is not ready, and has not been given up."
    patience = stays(_tolerances(pod), [(taint["key"], taint.get("value", "")) for taint in taints])
    if patience is None:
        return f"Node {node} is not ready, and the pod tolerates that for ever."
    since = max(parse_rfc3339(taint["timeAdded"]) if taint.get("timeAdded") else now for taint in taints)
    left = max(0, round(since + patience - now))
    return f"Node {node} is not ready; the pod is replaced in {format_duration(left)} unless it comes back."


def _tolerances(pod: JsonObject) -> list[TaintToleration]:
    return [_tolerance(item) for item in pod["spec"].get("tolerations") or ()]


def _tolerance(item: Mapping[str, Any]) -> TaintToleration:
    exists, seconds = item.get("operator") == "Exists", item.get("tolerationSeconds")
    return TaintToleration(item.get("key", ""), exists, item.get("value", ""), item.get("effect", ""), seconds)
