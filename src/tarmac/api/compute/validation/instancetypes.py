"""Instance types: amounts, and a life cycle that only moves forward."""

from __future__ import annotations

from tarmac.api.compute.instancetype import is_custom
from tarmac.api.compute.lookup import Lookup
from tarmac.api.compute.validation.amounts import amounts
from tarmac.api.kubernetes.checks import mapping
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_PHASES = ("Active", "Deprecated", "Disabled")
_PHASE = "spec.lifecycle.phase"
_REPLACEMENT = "spec.lifecycle.replacementInstanceType"


def check_instance_type(obj: JsonObject, old: JsonObject | None, lookup: Lookup, errors: FieldErrors) -> None:
    """What the declaration's bounds do not say; `old` is None on create."""
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    written = spec.get("resources") or {}
    if not is_custom(name):
        _amounts(written, errors)
    elif written:
        errors.forbidden("spec.resources", "a custom type has no amounts of its own")
    new, before = mapping(spec, "lifecycle"), mapping(old, "spec", "lifecycle")
    if new.get("phase", "Active") in _PHASES:  # else the bounds have said so
        _phase(new.get("phase", "Active"), before.get("phase", "Active"), errors, create=old is None)
        _replacement(new, before, name, lookup, errors)


def _amounts(written: JsonObject, errors: FieldErrors) -> None:
    for resource in ("cpu", "memory"):
        if resource not in written:
            errors.required(f"spec.resources[{resource}]")
    for resource, quantity in amounts(written, "spec.resources", errors).items():
        if not quantity:
            errors.invalid(f"spec.resources[{resource}]", written[resource], "must be greater than 0")


def _phase(phase: str, before: str, errors: FieldErrors, *, create: bool) -> None:
    if create and phase != "Active":
        errors.invalid(_PHASE, phase, "a new instance type must be Active")
    elif _PHASES.index(phase) < _PHASES.index(before):
        errors.invalid(_PHASE, phase, f"may not go back from {before}")


def _replacement(new: JsonObject, before: JsonObject, name: str, lookup: Lookup, errors: FieldErrors) -> None:
    replacement = new.get("replacementInstanceType", "")
    if not replacement:
        if new.get("phase", "Active") != "Active":
            errors.required(_REPLACEMENT, "must be set once the type is not Active")
    elif replacement == name:
        errors.invalid(_REPLACEMENT, replacement, "may not be the type itself")
    elif replacement != before.get("replacementInstanceType"):
        facts = lookup.instance_types().get(replacement)
        if facts is None:
            errors.not_found(_REPLACEMENT, replacement)
        elif facts.phase != "Active":
            errors.invalid(_REPLACEMENT, replacement, f"must be Active, but is {facts.phase}")
