"""Computes a pod's status from the runtime state. Pure: equal facts give an equal status, and no write.

Phases only move forward: Succeeded and Failed are final, even if the runtime reports otherwise later.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.status.containerstatuses import container_statuses, lost_at_the_end
from tarmac.agent.status.phase import phase
from tarmac.agent.status.podconditions import OURS, pod_conditions, with_times
from tarmac.agent.status.statusinputs import StatusFacts
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339


def pod_status(facts: StatusFacts) -> JsonObject:
    """Return the complete status."""
    pod, old = facts.pod, facts.old
    lists = {
        "initContainerStatuses": container_statuses(facts, "initContainers"),
        "containerStatuses": container_statuses(facts, "containers"),
        "ephemeralContainerStatuses": container_statuses(facts, "ephemeralContainers"),
    }
    if facts.over:
        _close(facts, lists)
    everyone = [*lists["initContainerStatuses"], *lists["containerStatuses"]]
    sandbox = facts.seen.usable_sandbox(pod.host_network)
    status: JsonObject = {
        "phase": _phase(facts, everyone),
        # Kept: the class of a pod never changes, and the place of its cgroup depends on it.
        "qosClass": old.get("qosClass") or qos_class(pod.spec),
        # Kept over a restart of the agent: activeDeadlineSeconds counts from it.
        "startTime": old.get("startTime") or rfc3339(facts.now),
        **({"observedGeneration": pod.generation} if pod.generation else {}),
        **{field: statuses for field, statuses in lists.items() if statuses},
        **_addresses(facts),
        **({"resources": {"classes": {**facts.classes.pod}}} if facts.classes.pod else {}),
    }
    _explain(facts, status)
    others = [*_foreign(facts), *facts.resizing]
    still = next((each.reason for each in facts.seen.containers if each.stands_still), "")
    conditions = pod_conditions(
        pod, everyone, status["phase"], has_sandbox=sandbox is not None, others=others, still=still
    )
    status["conditions"] = with_times(conditions, old.get("conditions") or (), facts.now)
    return status


def rejected_status(pod: AgentPod, reason: str, message: str, now: float) -> JsonObject:
    """Return the status of a rejected pod."""
    return {
        **pod.status,
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "qosClass": pod.status.get("qosClass") or qos_class(pod.spec),
        "startTime": pod.status.get("startTime") or rfc3339(now),
        **({"observedGeneration": pod.generation} if pod.generation else {}),
    }


def _close(facts: StatusFacts, lists: dict[str, list[JsonObject]]) -> None:
    """Mark containers that are not known to have ended as lost: the pod is over."""
    init = lists["initContainerStatuses"]
    begun = [index for index, each in enumerate(init) if _begun(each)]
    for each in init[: (begun[-1] if begun else 0) + 1]:
        _give_up(each)
    initialized = not init or any(_begun(each) for each in lists["containerStatuses"])
    last = init[-1]["state"].get("terminated") if init else None
    if initialized or (last is not None and last["exitCode"] == 0):
        for each in lists["containerStatuses"]:
            _give_up(each)


def _begun(status: JsonObject) -> bool:
    return "waiting" not in status["state"] or "terminated" in (status.get("lastState") or {})


def _give_up(status: JsonObject) -> None:
    if "terminated" not in status["state"]:
        status["state"] = lost_at_the_end()
    status["started"] = False
    if status["state"]["terminated"]["exitCode"] != 0:
        status["ready"] = False


def _phase(facts: StatusFacts, statuses: list[JsonObject]) -> str:
    # A final phase is never left, even if the runtime reports otherwise: the pod's controller may have replaced it.
    for known in (facts.pod.status.get("phase"), facts.old.get("phase")):
        if known in TERMINAL:
            return known
    if facts.verdict is not None:
        return "Failed"
    sandbox = facts.seen.sandboxes[0].id if facts.seen.sandboxes else ""
    names = {each["name"] for each in facts.pod.containers}
    begun = any(each.name in names and each.sandbox_id == sandbox for each in facts.seen.containers)
    found = phase(facts.pod, statuses, over=facts.over, initialized=begun)
    return "Failed" if facts.over and found not in TERMINAL and not facts.pod.static else found


def _explain(facts: StatusFacts, status: JsonObject) -> None:
    if facts.verdict is not None and facts.old.get("phase") not in TERMINAL:
        status |= {"reason": facts.verdict.reason, "message": facts.verdict.message}
    elif status["phase"] == facts.old.get("phase"):
        status |= {field: facts.old[field] for field in ("reason", "message") if facts.old.get(field)}


def _foreign(facts: StatusFacts) -> list[JsonObject]:
    """Return conditions of other writers, and the node's earlier DisruptionTarget."""
    kept = [each for each in facts.pod.status.get("conditions") or () if each["type"] not in OURS]
    known = {each["type"] for each in kept}
    if facts.verdict is not None and facts.verdict.condition is not None:
        if facts.verdict.condition["type"] not in known:
            kept.append({**facts.verdict.condition})
    elif "DisruptionTarget" not in known:
        kept += [each for each in facts.old.get("conditions") or () if each["type"] == "DisruptionTarget"]
    return [{**each} for each in kept]


def _addresses(facts: StatusFacts) -> JsonObject:
    hosts = list(facts.host_addresses[:2])
    found: JsonObject = {}
    if hosts:
        found |= {"hostIP": hosts[0], "hostIPs": [{"ip": each} for each in hosts]}
    own = hosts if facts.pod.host_network else pod_addresses(facts)
    if own:
        found |= {"podIP": own[0], "podIPs": [{"ip": each} for each in own]}
    elif facts.old.get("podIP"):
        found |= {"podIP": facts.old["podIP"], "podIPs": facts.old.get("podIPs") or []}
    return found


def pod_addresses(facts: StatusFacts) -> list[str]:
    """Return one address of each family, the node's primary family first."""
    sandbox = next((each for each in facts.seen.sandboxes if each.ready), None)
    return in_order(sandbox.addresses if sandbox else (), facts.host_addresses)


def in_order(addresses: Sequence[str], host_addresses: Sequence[str]) -> list[str]:
    """Return the first IPv4 and the first IPv6 address; the node's primary family first."""
    by_family: dict[int, str] = {}
    for each in addresses:
        by_family.setdefault(*_canonical(each))
    first = _canonical(host_addresses[0])[0] if host_addresses else 4
    return [by_family[family] for family in (first, 10 - first) if family in by_family]


@lru_cache(1024)
def _canonical(address: str) -> tuple[int, str]:
    """Return the family and the canonical form. Cached, since every pass over a pod needs it."""
    parsed = ipaddress.ip_address(address)
    return parsed.version, str(parsed)
