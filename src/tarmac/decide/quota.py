"""Which waiting Instances the quotas of a namespace have room for.

Every ResourceQuota of the namespace must have room for all that an Instance asks for; what an Instance holds already is
never taken back, even when a quota shrinks. The oldest Instance goes first, then the lowest ordinal; one that does not
fit is passed over and does not hold up a smaller one behind it. The arithmetic is exact, and runs over the whole
namespace at once, so no two Instances can be given the same room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tarmac.api.compute.names import GROUP
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.kubernetes.core.pods.podresources import add, pod_amounts
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal

ONE: Final = Quantity.of(1)
_INSTANCE_COUNT: Final = f"count/instances.{GROUP}"
_PER_INSTANCE: Final = ("pods", "count/pods", _INSTANCE_COUNT)
_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
# An Instance's Pod has requests and no deadline; quotas for other pods do not concern it.
_SCOPES: Final = frozenset({"NotTerminating", "NotBestEffort"})


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota that concerns Instances: its limits, by the resource names of the quota."""

    name: str
    hard: ResourceList


@dataclass(frozen=True, slots=True)
class Claim:
    """What one Instance asks for. `resources` are those of its runtime: cpu, memory, devices."""

    name: str
    resources: ResourceList
    created: float = 0.0
    ordinal: int = 0
    city: str = ""


@dataclass(frozen=True, slots=True)
class Admission:
    """The waiting Instances that may go on, in order, and why each of the others may not."""

    granted: tuple[str, ...]
    refused: Mapping[str, Refusal] = field(default_factory=dict[str, Refusal])


def used_by(pods: Iterable[JsonObject]) -> ResourceList:
    """What pods use that are of no Instance. One that has run its course uses nothing."""
    used: ResourceList = {}
    for pod in pods:
        if not is_terminal(pod):
            found = charges(Claim("", pod_amounts(pod["spec"], "requests")))
            del found[_INSTANCE_COUNT]
            add(used, found)
    return used


def quotas_of(objects: Iterable[JsonObject]) -> tuple[Quota, ...]:
    """The quotas that concern Instances, from ResourceQuota objects, by name."""
    concerned = [obj for obj in objects if _concerns_instances(obj.get("spec") or {})]
    read = [Quota(obj["metadata"]["name"], _amounts(obj["spec"].get("hard") or {})) for obj in concerned]
    return tuple(sorted(read, key=lambda quota: quota.name))


def admit(
    quotas: Collection[Quota], used: ResourceList, holding: Collection[Claim], waiting: Collection[Claim]
) -> Admission:
    """Who of `waiting` may go on. `used` is what everything but Instances uses, by the quota's resource names."""
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
    """What an Instance counts as, by the resource names of quotas."""
    amounts: ResourceList = dict.fromkeys(_PER_INSTANCE, ONE)
    for resource, amount in claim.resources.items():
        amounts[f"requests.{resource}"] = amount
        if resource in _PLAIN:
            amounts[resource] = amount
    return amounts


def _refusal(quotas: Collection[Quota], total: ResourceList, claim: Claim) -> Refusal | None:
    """The first limit that has no room; its change names every limit that would have to be raised."""
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


def _concerns_instances(spec: JsonObject) -> bool:
    scopes: set[str] = set(spec.get("scopes") or ())
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return scopes <= _SCOPES and not expressions


def _amounts(hard: Mapping[str, str]) -> ResourceList:
    return {resource: Quantity.parse(amount) for resource, amount in hard.items()}
