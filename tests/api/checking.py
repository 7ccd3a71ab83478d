"""The causes that validation finds in an object of any of Tarmac's kinds."""

from __future__ import annotations

import copy

from tarmac.api.catalog import build_catalog
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldError, FieldErrors

_OWN = {resource.kind: resource for resource in build_catalog() if not resource.native}


def served(kind: str) -> Resource:
    """The resource of one of Tarmac's own kinds."""
    return _OWN[kind]


def make(kind: str, spec: JsonObject, *, name: str = "x", status: JsonObject | None = None) -> JsonObject:
    """An object of a kind."""
    obj: JsonObject = {
        "apiVersion": served(kind).api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": copy.deepcopy(spec),
    }
    return obj if status is None else {**obj, "status": status}


def causes(obj: JsonObject, old: JsonObject | None = None) -> list[str]:
    """Return all errors of an object, as "Kind path" lines in order."""
    return [f"{error.kind} {error.path}" for error in errors_of(obj, old)]


def errors_of(obj: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
    """Return all errors of an object."""
    errors = FieldErrors()
    strategy = served(obj["kind"]).strategy
    for each in (obj, old):
        if each is not None:
            strategy.normalise(each)
            strategy.default(each)
    if old is None:
        strategy.validate(obj, errors)
    else:
        strategy.validate_update(obj, old, errors)
    return list(errors)
