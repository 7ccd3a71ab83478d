"""Computes the charges of one object under the names of quotas, and matches quota scopes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tarmac.api.compute.names import GATE_QUOTA
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.kubernetes.core.pods.podresources import pod_amounts, qos_class
from tarmac.api.kubernetes.resourcenames import ZERO, is_extended, is_huge_pages, quantity
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity
from tarmac.server.admission.quota.classcharges import class_charges

PODS = "core/pods"
SERVICES = "core/services"
CLAIMS = "core/persistentvolumeclaims"
INSTANCES = "compute.datumapis.com/instances"
_ONE = Quantity.parse(1)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_PLAIN_COUNTS = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
_CLASS = ".storageclass.storage.k8s.io/"
# Every container of a pod must specify these if a quota limits them.
_MUST_SPECIFY = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})


def count_name(bucket: str) -> str:
    """Return the quota name of a resource: `count/pods`, `count/workloads.compute.datumapis.com`."""
    group, _, plural = bucket.partition("/")
    return f"count/{plural}" if group == "core" else f"count/{plural}.{group}"


def buckets_of(names: Iterable[str]) -> set[str]:
    """Return the resources with objects that may be charged under any of these names."""
    found: set[str] = set()
    for name in names:
        if name.startswith("count/"):
            plural, _, group = name.removeprefix("count/").partition(".")
            found.add(f"{group or 'core'}/{plural}")
        elif name.startswith("services"):
            found.add(SERVICES)
        elif name in ("persistentvolumeclaims", "requests.storage") or _CLASS in name:
            found.add(CLAIMS)
        elif name in _PLAIN_COUNTS:
            found.add(f"core/{name}")
        else:
            found.add(PODS)
    return found


def charges(bucket: str, obj: JsonObject | None) -> ResourceList:
    """Return the charges of an object. Empty for None, and for an Instance that itself waits for quota."""
    if obj is None or (bucket == INSTANCES and _waits_for_quota(obj)):
        return {}
    found: ResourceList = {count_name(bucket): _ONE}
    if bucket == PODS:
        if not is_terminal(obj):
            found.update(_pod(obj["spec"]))
            found.update(class_charges(obj))
    elif bucket == SERVICES:
        found.update(_service(obj["spec"]))
    elif bucket == CLAIMS:
        found.update(_claim(obj))
    elif bucket.removeprefix("core/") in _PLAIN_COUNTS:
        found[bucket.removeprefix("core/")] = _ONE
    return found


def _waits_for_quota(instance: JsonObject) -> bool:
    gates = (instance["spec"].get("controller") or {}).get("schedulingGates") or ()
    return any(gate["name"] == GATE_QUOTA for gate in gates)


def _pod(spec: JsonObject) -> ResourceList:
    found: ResourceList = {"pods": _ONE}
    requests, limits = pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
    for name, amount in requests.items():
        if name in _COMPUTE or is_huge_pages(name):
            found[name] = found[f"requests.{name}"] = amount
        elif is_extended(name):
            found[f"requests.{name}"] = amount
    found.update((f"limits.{name}", amount) for name, amount in limits.items() if name in _COMPUTE)
    return found


def _service(spec: JsonObject) -> ResourceList:
    kind, ports = spec.get("type"), spec.get("ports") or []
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        # Such a Service takes only the node ports that its author names; the others are never allocated.
        ports = [port for port in ports if port.get("nodePort")]
    count = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    return {
        "services": _ONE,
        "services.nodeports": Quantity.parse(count),
        "services.loadbalancers": _ONE if kind == "LoadBalancer" else ZERO,
    }


def _claim(claim: JsonObject) -> ResourceList:
    spec = claim["spec"]
    size = quantity(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))
    found = {"persistentvolumeclaims": _ONE, "requests.storage": size}
    if name := spec.get("storageClassName"):
        found[f"{name}{_CLASS}persistentvolumeclaims"] = _ONE
        found[f"{name}{_CLASS}requests.storage"] = size
    return found


def matches(spec: JsonObject, bucket: str, obj: JsonObject) -> bool:
    """Return True if a quota with this spec counts the object. Every scope must match, and only pods have scopes.

    A node creates mirrors in any namespace, so they count in no quota.
    """
    if bucket == PODS and is_mirror(obj["metadata"].get("annotations")):
        return False
    expressions = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    expressions += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if not expressions:
        return True
    return bucket == PODS and all(_fits(expression, obj["spec"]) for expression in expressions)


def _fits(expression: JsonObject, spec: JsonObject) -> bool:
    match expression.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _fits_priority(expression, spec.get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(spec)
        case _:
            return False


def _fits_priority(expression: JsonObject, name: str) -> bool:
    values = expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _crosses_namespaces(spec: JsonObject) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        terms = [*(pods.get("requiredDuringSchedulingIgnoredDuringExecution") or ())]
        preferred = pods.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [term.get("podAffinityTerm") or {} for term in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def unspecified(hard: Mapping[str, object], pod: JsonObject) -> str | None:
    """Describe the limited resources that containers do not specify, or None."""
    wanted = sorted(_MUST_SPECIFY.intersection(hard))
    pod_level = pod["spec"].get("resources") or {}
    if not wanted or pod_level.get("requests") or pod_level.get("limits"):
        return None
    missing: dict[str, list[str]] = {}
    for field in ("containers", "initContainers"):
        for container in pod["spec"].get(field) or ():
            resources = container.get("resources") or {}
            for name in wanted:
                side, resource = ("limits" if name.startswith("limits.") else "requests"), name.rpartition(".")[2]
                if resource not in (resources.get(side) or {}):
                    missing.setdefault(name, []).append(container.get("name", ""))
    if not missing:
        return None
    parts = (f"{name} for: {','.join(sorted(containers))}" for name, containers in missing.items())
    return f"must specify {'; '.join(parts)}"
