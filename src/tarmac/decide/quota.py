"""Admits waiting Instances by the quotas of their namespace.

Every ResourceQuota of the namespace must have room for all that an Instance requests; resources of admitted Instances
are never revoked, even when a quota shrinks. The oldest Instance goes first, then the lowest ordinal; one that does not
fit is skipped and does not block a smaller one behind it. The arithmetic is exact, and runs over the whole namespace at
once, so no two Instances can be given the same room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tarmac.api.compute.names import GROUP
from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, POD_LEVEL
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.kubernetes.core.pods.podclasses import asks_for_classes, named_classes
from tarmac.api.kubernetes.core.pods.podresources import add, pod_amounts
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity
from tarmac.decide import reasons
from tarmac.decide.qosclasses.counting import Place, Places, places
from tarmac.decide.verdict import Refusal

ONE: Final = Quantity.of(1)
_INSTANCE_COUNT: Final = f"count/instances.{GROUP}"
_PER_INSTANCE: Final = ("pods", "count/pods", _INSTANCE_COUNT)
_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
# An Instance's Pod has requests and no deadline; quotas with other scopes do not apply to it.
_SCOPES: Final = frozenset({"NotTerminating", "NotBestEffort"})


# Classes in quotas: the classes of a type a namespace may use, and the number of places of each.
#
# A quota restricts the types it lists. A class that it does not list may not be used; one without a capacity may be
# used without limit. Types listed for pods are counted per pod, those listed for containers per container; so every
# charge has two names, and a quota reads one of them.


@dataclass(frozen=True, slots=True)
class AllowedClasses:
    """The types that a quota restricts, the allowed classes of each, and the limits of classes with a capacity."""

    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    hard: ResourceList = field(default_factory=dict[str, Quantity])

    def forbids(self, wanted: Places) -> list[Place]:
        """Return the classes that may not be used."""
        return [(kind, name) for kind, name in wanted if name not in self.allowed.get(kind, (name,))]


def allowed_classes(spec: JsonObject) -> AllowedClasses:
    """Return the classes that a ResourceQuota allows."""
    allowed: dict[str, tuple[str, ...]] = {}
    hard: ResourceList = {}
    for level, prefix in ((POD_LEVEL, "pod class"), (CONTAINER_LEVEL, "class")):
        for listed in spec.get(level) or ():
            classes: list[Any] = listed.get("classes") or []
            allowed[listed["name"]] = tuple(each["name"] for each in classes)
            for each in classes:
                if each.get("capacity") is not None:
                    hard[f"{prefix} {listed['name']}/{each['name']}"] = Quantity.of(each["capacity"])
    return AllowedClasses(allowed, hard)


def class_charges(by_containers: Places, by_pods: Places) -> ResourceList:
    """Return places by the resource names of quotas."""
    found = {f"class {kind}/{name}": Quantity.of(count) for (kind, name), count in by_containers.items()}
    return found | {f"pod class {kind}/{name}": Quantity.of(count) for (kind, name), count in by_pods.items()}


def pod_class_charges(pod: JsonObject) -> ResourceList:
    """Return the places a pod takes, under both names: counted per container and per pod."""
    if not asks_for_classes(pod):
        return {}
    return class_charges(places(pod), places(pod, {kind for kind, _ in named_classes(pod)}))


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota that applies to Instances: its limits, by the resource names of the quota."""

    name: str
    hard: ResourceList
    classes: AllowedClasses = field(default_factory=AllowedClasses)


@dataclass(frozen=True, slots=True)
class Claim:
    """The request of one Instance. `resources` are those of its runtime: cpu, memory, devices."""

    name: str
    resources: ResourceList
    created: float = 0.0
    ordinal: int = 0
    city: str = ""
    classes: Places = field(default_factory=dict[Place, int])


@dataclass(frozen=True, slots=True)
class Admission:
    """The admitted Instances in order, and the refusal of each remaining one."""

    granted: tuple[str, ...]
    refused: Mapping[str, Refusal] = field(default_factory=dict[str, Refusal])


def used_by(pods: Iterable[JsonObject]) -> ResourceList:
    """Return the usage of pods that belong to no Instance. Terminated pods and mirrors of static pods use nothing."""
    used: ResourceList = {}
    for pod in pods:
        if not is_terminal(pod) and not is_mirror(pod["metadata"].get("annotations")):
            found = charges(Claim("", pod_amounts(pod["spec"], "requests")))
            del found[_INSTANCE_COUNT]
            add(used, found | pod_class_charges(pod))
    return used


def quotas_of(objects: Iterable[JsonObject], *, classes: bool = True) -> tuple[Quota, ...]:
    """Return the quotas that apply to Instances, from ResourceQuota objects, by name.

    Without `classes`, the classes in quotas are not enforced.
    """
    concerned = [obj for obj in objects if _concerns_instances(obj.get("spec") or {})]
    return tuple(sorted((_quota(obj, classes) for obj in concerned), key=lambda quota: quota.name))


def _quota(obj: JsonObject, classes: bool) -> Quota:
    spec: JsonObject = obj.get("spec") or {}
    allowed = allowed_classes(spec) if classes else AllowedClasses()
    return Quota(obj["metadata"]["name"], _amounts(spec.get("hard") or {}) | allowed.hard, allowed)


def admit(
    quotas: Collection[Quota], used: ResourceList, holding: Collection[Claim], waiting: Collection[Claim]
) -> Admission:
    """Admit Instances of `waiting`. `used` is the usage of everything but Instances, by the quota's resource names."""
    total = dict(used)
    for claim in holding:
        add(total, charges(claim))
    granted: list[str] = []
    refused: dict[str, Refusal] = {}
    for claim in sorted(waiting, key=lambda claim: (claim.created, claim.ordinal, claim.name)):
        refusal = _refusal(quotas, total, claim)
        if refusal is None:
            add(total, charges(claim))
            granted.append(claim.name)
        else:
            refused[claim.name] = refusal
    return Admission(tuple(granted), refused)


def charges(claim: Claim) -> ResourceList:
    """Return the charges of an Instance, by the resource names of quotas."""
    amounts: ResourceList = dict.fromkeys(_PER_INSTANCE, ONE)
    for resource, amount in claim.resources.items():
        amounts[f"requests.{resource}"] = amount
        if resource in _PLAIN:
            amounts[resource] = amount
    # An Instance requests classes by annotation, hence for its containers, but a quota may count the type per pod.
    return amounts | class_charges(claim.classes, claim.classes)


def _refusal(quotas: Collection[Quota], total: ResourceList, claim: Claim) -> Refusal | None:
    """Return a refusal for the first limit without room; its change names every limit that would have to be raised."""
    if (forbidden := _forbidden(quotas, claim)) is not None:
        return forbidden
    zero = Quantity.of(0)
    short = [
        (quota, resource, total.get(resource, zero), amount)
        for quota in quotas
        for resource, amount in charges(claim).items()
        if resource in quota.hard and total.get(resource, zero) + amount > quota.hard[resource]
    ]
    if not short:
        return None
    quota, resource, taken, amount = short[0]
    where = f" in {claim.city}" if claim.city else ""
    message = (
        f"quota {quota.name} is exhausted{where}: {resource} {amount} wanted, {taken} of {quota.hard[resource]} used"
    )
    raises = [
        f"{resource} of ResourceQuota {quota.name} to {taken + amount}" for quota, resource, taken, amount in short
    ]
    change = f"Raise {' and '.join(raises)}, or scale something else down."
    return Refusal(reasons.QUOTA_EXHAUSTED, message, claim.city or claim.name, "quota", change)


def permissions(quotas: Iterable[Quota], claims: Iterable[Claim]) -> list[str]:
    """Return the permissions that quotas lack for these claims."""
    wanted: Places = {}
    for claim in claims:
        wanted |= claim.classes
    return [
        f"class {kind}/{name} in ResourceQuota {quota.name}"
        for quota in quotas
        for kind, name in quota.classes.forbids(wanted)
    ]


def _forbidden(quotas: Collection[Quota], claim: Claim) -> Refusal | None:
    """Return a refusal for a class that a quota does not allow; its change names every quota that would have to."""
    for quota in quotas:
        for kind, name in quota.classes.forbids(claim.classes):
            there = ", ".join(quota.classes.allowed[kind])
            where = f" in {claim.city}" if claim.city else ""
            message = f"quota {quota.name} does not allow class {kind}/{name}{where}; allowed: {there or 'none'}"
            instead = f"Ask for {there}, or allow" if there else "Allow"
            change = f"{instead} {' and '.join(permissions(quotas, [claim]))}."
            return Refusal(reasons.QUOTA_EXHAUSTED, message, claim.city or claim.name, "quota", change)
    return None


def _concerns_instances(spec: JsonObject) -> bool:
    scopes: set[str] = set(spec.get("scopes") or ())
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return scopes <= _SCOPES and not expressions


def _amounts(hard: Mapping[str, str]) -> ResourceList:
    return {resource: Quantity.parse(amount) for resource, amount in hard.items()}
