"""In-place resizes of pods: decided by the agent's rules, applied at once or postponed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.agent.allocation.promises import PodPromises
from tarmac.agent.model.allotment import Postponed
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.pods.predicates import memory_postponed, postponed
from tarmac.sim.nodes.pod import PodStage, SimulatedPod
from tarmac.sim.nodes.simulatednode import SimulatedNode

_ENDED = (PodStage.ENDED, PodStage.STOPPED)
_AMOUNTS = ("cpu", "memory")


def resize(node: SimulatedNode, pod: SimulatedPod, handler: str, now: str) -> list[str]:
    """Resize a pod if its node can. Return the names of containers that must restart for it."""
    has, asks = pod.as_pod(pod.held), pod.as_pod(pod.asked)
    promises = PodPromises(has)

    def fits(_has: AgentPod, _asks: AgentPod) -> Postponed | None:
        return _postponement(node, pod, handler, has, asks)

    if not promises.consider(asks, fits):
        pod.postpone(promises.postponed, now)
        return []
    pod.postpone(None, now)
    pod.held = pod.asked
    node.resized(pod)
    if not pod.runs:
        return []
    before = {each["name"]: each.get("resources") or {} for each in has.containers}
    return [each["name"] for each in asks.containers if _restarts(each, before.get(each["name"], {}))]


def _postponement(
    node: SimulatedNode, pod: SimulatedPod, handler: str, has: AgentPod, asks: AgentPod
) -> Postponed | None:
    if (why := node.postponed(has, asks, handler)) is not None:
        return why
    if pod.is_machine and (why := memory_postponed(has, asks)) is not None:
        return why
    others = [each.as_pod(each.held) for each in node.pods() if each is not pod and each.stage not in _ENDED]
    return postponed(asks, {"status": node.model.sizes}, others)


def _restarts(container: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return True if the container's resize policy requires a restart for the changed amounts."""
    now: Mapping[str, Any] = container.get("resources") or {}
    policies = {each["resourceName"]: each["restartPolicy"] for each in container.get("resizePolicy") or ()}
    return any(
        policies.get(name) == "RestartContainer"
        and any(
            (before.get(side) or {}).get(name) != (now.get(side) or {}).get(name) for side in ("requests", "limits")
        )
        for name in _AMOUNTS
    )
