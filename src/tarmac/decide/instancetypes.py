"""Computes an InstanceType's status from its life cycle."""

from __future__ import annotations

from tarmac.api.compute.instancetype import InstanceType, InstanceTypeStatus
from tarmac.api.declare import Time
from tarmac.base.clock import rfc3339
from tarmac.decide import reasons
from tarmac.decide.rollup.conditions import Finding, merge
from tarmac.decide.verdict import Refusal


def type_status(instance_type: InstanceType, now: float) -> InstanceTypeStatus:
    """Return the whole status; equal to the old one when nothing changed."""
    old, generation = instance_type.status or InstanceTypeStatus(), instance_type.metadata.generation
    ageing = retirement(instance_type)
    since = old.deprecated_at or Time(rfc3339(now)) if ageing is not None else None
    return InstanceTypeStatus(generation, merge(old.conditions, (_ready(ageing),), generation, now), since)


def retirement(instance_type: InstanceType) -> Refusal | None:
    """Return a refusal for a deprecated or disabled type, with its replacement; None while the type is active."""
    lifecycle, name = instance_type.spec.lifecycle, instance_type.metadata.name
    if lifecycle is None or lifecycle.phase == "Active":
        return None
    change = f"Use {lifecycle.replacement_instance_type}."
    if lifecycle.phase == "Deprecated":
        return Refusal(reasons.INSTANCE_TYPE_DEPRECATED, f"InstanceType {name} is deprecated.", "", "type", change)
    message = f"InstanceType {name} is disabled: running instances continue, and new ones may not use it."
    return Refusal(reasons.INSTANCE_TYPE_DISABLED, message, "", "type", change)


def _ready(ageing: Refusal | None) -> Finding:
    if ageing is None:
        return Finding("Ready", "True", reasons.ACTIVE, "The type may be used.")
    usable = ageing.reason == reasons.INSTANCE_TYPE_DEPRECATED
    return Finding("Ready", "True" if usable else "False", ageing.reason, f"{ageing.message} {ageing.change}")
