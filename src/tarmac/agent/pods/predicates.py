"""Predicates that decide if a pod bound to this node may run on it, or be resized on it.

The node repeats the scheduler's checks: the scheduler may have used outdated data, or the pod may have been bound
without it. Reasons and messages are kubelet's. A rejected pod becomes Failed, and its controller creates a replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import Final

from tarmac.agent.containers.security import wants_strict_groups
from tarmac.agent.model.allotment import Postponed, Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.api.kubernetes.core.pods.podresources import pod_amounts
from tarmac.api.kubernetes.core.pods.security import SAFE_SYSCTLS
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.amounts import MEMORY, PODS, Amounts, add, amounts_of
from tarmac.decide.scheduling import requests_of
from tarmac.decide.scheduling.nodeterms import choice_of

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage", PODS)
MACHINE_MEMORY: Final = "memory of a virtual machine changes with its restart"
_NO_USER_NAMESPACES: Final = (
    "User namespaces are not supported in this node. Leave hostUsers out; under the RuntimeClass gvisor no process of "
    "the pod, root or not, reaches the host's kernel"
)


def refusal(
    pod: AgentPod,
    node: JsonObject,
    others: Iterable[AgentPod],
    unsafe_sysctls: Iterable[str] = (),
    awaited: Set[str] = frozenset(),
) -> Refusal | None:
    """Return the reason to reject the pod, or None.

    `others` are the pods already here, `awaited` the resources whose capacity is not known yet.
    """
    others = list(others)
    return (
        _system(pod)
        or _isolation(pod, node)
        or _sysctls(pod, tuple(unsafe_sysctls))
        or _room(pod, node, others, awaited)
        or _choice(pod, node)
        or _ports(pod, others)
    )


def handler_refusal(name: str, handler: str, known: Callable[[], frozenset[str]]) -> Refusal | None:
    """Reject a pod whose RuntimeClass has a handler that this node does not offer.

    While the runtime has not answered yet, the set of handlers is empty. No pod is rejected then, since rejection is
    final; the pod's sandbox waits for the runtime.
    """
    offered = known()
    if not handler or not offered or handler in offered:
        return None
    message = f'RuntimeClass "{name}" needs the handler "{handler}", which this node does not have'
    return "RuntimeHandlerNotSupported", message


def memory_postponed(current: AgentPod, requested: AgentPod) -> Postponed | None:
    """Reject a memory resize of a running virtual machine: CPUs can be hot-plugged, memory cannot."""
    return Postponed("Infeasible", MACHINE_MEMORY) if _memory(current) != _memory(requested) else None


def postponed(pod: AgentPod, node: JsonObject, others: Iterable[AgentPod]) -> Postponed | None:
    """Return the reason why a running pod cannot get the resources its spec requests now, or None."""
    if pod.static:
        return Postponed("Infeasible", "In-place resize of static-pods is not supported")
    allocatable = _allocatable(node)
    for name, asked in requests_of(pod.spec).items():
        if name in allocatable and asked > allocatable[name]:
            capacity = allocatable[name]
            return Postponed(
                "Infeasible", f"Node didn't have enough capacity: {name}, requested: {asked}, capacity: {capacity}"
            )
    short = _room(pod, node, list(others))
    return Postponed("Deferred", short[1]) if short else None


def _memory(pod: AgentPod) -> list[Quantity | None]:
    return [pod_amounts(pod.spec, side).get(MEMORY) for side in ("requests", "limits")]


def _system(pod: AgentPod) -> Refusal | None:
    if (pod.spec.get("os") or {}).get("name", "linux") != "linux":
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    if pod.labels.get("kubernetes.io/os", "linux") != "linux":
        message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return "PodOSSelectorNodeLabelDoesNotMatch", message
    return None


def _isolation(pod: AgentPod, node: JsonObject) -> Refusal | None:
    """Reject isolation settings that this node cannot enforce: a pod must never appear more isolated than it is."""
    stated = pod.spec.get("securityContext") or {}
    features = (node.get("status") or {}).get("features") or {}
    if wants_strict_groups(pod) and not features.get("supplementalGroupsPolicy"):
        return (
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        )
    if pod.spec.get("hostUsers") is False:
        return "UserNamespacesNotSupported", _NO_USER_NAMESPACES
    profiles = [stated, *(each.get("securityContext") or {} for each in pod.every_container())]
    kinds = {(each.get("appArmorProfile") or {}).get("type", "Unconfined") for each in profiles}
    if "Localhost" in kinds or ("RuntimeDefault" in kinds and not _has_app_armor()):
        return "AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"
    return None


def _has_app_armor() -> bool:
    try:
        # The file is missing in a kernel without AppArmor, and says N if it is switched off at boot.
        return Path("/sys/module/apparmor/parameters/enabled").read_text().startswith("Y")
    except OSError:
        return False


def _sysctls(pod: AgentPod, unsafe: tuple[str, ...]) -> Refusal | None:
    for each in (pod.spec.get("securityContext") or {}).get("sysctls") or ():
        # The kernel's tools take both separators: net/ipv4/ip_forward is net.ipv4.ip_forward.
        name = each["name"].replace("/", ".")
        allowed = any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in unsafe)
        if name not in SAFE_SYSCTLS and not allowed:
            return "SysctlForbidden", f'forbidden sysctl: "{each["name"]}" not allowlisted'
    return None


def _allocatable(node: JsonObject) -> Amounts:
    return amounts_of((node.get("status") or {}).get("allocatable"))


def _room(pod: AgentPod, node: JsonObject, others: list[AgentPod], awaited: Set[str] = frozenset()) -> Refusal | None:
    stated: Mapping[str, str] = (node.get("status") or {}).get("allocatable") or {}
    capacity = amounts_of(stated)
    used: Amounts = {PODS: len(others)}
    for other in others:
        add(used, requests_of(other.spec))
    for name, asked in {PODS: 1, **requests_of(pod.spec)}.items():
        known = name in stated or (stated and name in _NATIVE and name != "ephemeral-storage")
        if known and name not in awaited and asked + used.get(name, 0) > capacity.get(name, 0):
            amounts = f"requested: {asked}, used: {used.get(name, 0)}, capacity: {capacity.get(name, 0)}"
            reason = f"OutOf{name}"
            return reason, f"Node didn't have enough resource: {name}, {amounts}"
    return None


def _choice(pod: AgentPod, node: JsonObject) -> Refusal | None:
    metadata = node.get("metadata") or {}
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    choice = choice_of(pod.spec.get("nodeSelector") or {}, required["nodeSelectorTerms"] if required else None)
    # A Node that is not registered yet has no labels to judge by.
    if choice is None or not metadata or choice.matches(metadata["name"], metadata.get("labels") or {}):
        return None
    return "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"


def _ports(pod: AgentPod, others: list[AgentPod]) -> Refusal | None:
    wanted = _host_ports(pod)
    if not wanted:
        return None
    for other in others:
        for protocol, port, address in _host_ports(other):
            if any(p == protocol and n == port and _overlap(a, address) for p, n, a in wanted):
                return (
                    "NodePorts",
                    "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
                )
    return None


def _overlap(one: str, other: str) -> bool:
    return one == other or "0.0.0.0" in (one, other)


def _host_ports(pod: AgentPod) -> set[tuple[str, int, str]]:
    return {
        (port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or "0.0.0.0")
        for container in pod.containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
