"""Instance types: amounts, and a life cycle that only moves forward."""

from __future__ import annotations

from tarmac.api.compute.instancetype import is_custom
from tarmac.api.compute.lookup import Lookup
from tarmac.api.compute.validation.amounts import amounts
from tarmac.api.compute.validation.lifecycle import CatalogueWords, check_lifecycle
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_WORDS = CatalogueWords("instance type", "type", "replacementInstanceType")


def check_instance_type(obj: JsonObject, old: JsonObject | None, lookup: Lookup, errors: FieldErrors) -> None:
    """Check the rules beyond the declaration's bounds; `old` is None on create."""
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    written = spec.get("resources") or {}
    if not is_custom(name):
        _amounts(written, errors)
    elif written:
        errors.forbidden("spec.resources", "a custom type has no amounts of its own")
    check_lifecycle(obj, old, _WORDS, lookup.instance_types(), errors)


def _amounts(written: JsonObject, errors: FieldErrors) -> None:
    for resource in ("cpu", "memory"):
        if resource not in written:
            errors.required(f"spec.resources[{resource}]")
    for resource, quantity in amounts(written, "spec.resources", errors).items():
        if not quantity:
            errors.invalid(f"spec.resources[{resource}]", written[resource], "must be greater than 0")
