"""Annotations that request QoS classes, in a Pod or in a template of Pods: permitted keys and values."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.kubernetes.core.pods import classrules
from tarmac.api.kubernetes.core.pods.podclasses import CONTAINER, DEFAULT, annotated_type
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_KEYS = f"must end in /{DEFAULT} or /{CONTAINER}NAME"


def validate_annotations(
    annotations: Mapping[str, str],
    containers: Mapping[str, JsonObject],
    spec: JsonObject,
    path: str,
    errors: FieldErrors,
) -> None:
    """Check that keys name an existing container or all of them, values are classes, and fields agree with them."""
    for key, value in annotations.items():
        kind = annotated_type(key)
        if kind is None:
            continue
        at, whom = f"{path}[{key}]", key.partition("/")[2]
        owner = spec if whom == DEFAULT else containers.get(whom.removeprefix(CONTAINER))
        if whom != DEFAULT and not whom.startswith(CONTAINER):
            errors.invalid(at, value, _KEYS)
        elif owner is None:
            errors.invalid(at, value, "container not found")
        elif value:
            classrules.class_name(value, at, errors)
            _agrees(kind, value, owner, at, errors)
        else:
            errors.invalid(at, value, "must be the name of a class")


def _agrees(kind: str, value: str, owner: JsonObject, path: str, errors: FieldErrors) -> None:
    field = ((owner.get("resources") or {}).get("classes") or {}).get(kind, value)
    if field != value:
        errors.invalid(path, value, f"must be {field}, as the field resources.classes[{kind}] says, or left out")
