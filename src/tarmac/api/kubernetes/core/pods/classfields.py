"""The class fields of a Pod as clients write them, and the permitted changes of classes afterwards.

`qosResources` is an alias of `resources.classes`. It is rewritten unless it contradicts itself or `classes`; then it
stays in place, and validation rejects it. Annotations that request classes never change; the fields change only through
`pods/resize`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tarmac.api.kubernetes.core.pods import classrules
from tarmac.api.kubernetes.core.pods.podclasses import (
    annotation_giving,
    class_annotations,
    classes_of_containers,
    stored_type,
)
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

OTHER_FORM = "qosResources"
_LISTS = ("initContainers", "containers")


def normalise_classes(pod: JsonObject) -> None:
    """Convert classes to their stored form, in place. The object may be a patch, and invalid in any way."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    if OTHER_FORM in spec:
        _rewrite(spec, spec)
    if isinstance(resources := spec.get("resources"), dict):
        _normalise_resources(resources)
    for field in _LISTS:
        for container in _items(spec.get(field)):
            if isinstance(resources := container.get("resources"), dict):
                if OTHER_FORM in resources:
                    _rewrite(resources, container)
                _normalise_resources(resources)


def _normalise_resources(resources: JsonObject) -> None:
    if isinstance(resources.get("classes"), dict):
        classrules.store_map(resources, "classes")


def _rewrite(listing: JsonObject, owner: JsonObject) -> None:
    """Move the list in `listing` into the map in the resources of `owner`, unless it is invalid."""
    resources = owner.get("resources", {})
    classes = resources.get("classes", {}) if isinstance(resources, dict) else None
    requested = _requested_classes(listing[OTHER_FORM])
    if requested is None or not isinstance(classes, dict):
        return
    known = {stored_type(kind): name for kind, name in classes.items()}
    if all(known.get(kind, name) == name for kind, name in requested.items()):
        del listing[OTHER_FORM]
        if requested:
            owner["resources"] = {**owner.get("resources", {}), "classes": {**known, **requested}}


def _requested_classes(items: Any) -> dict[str, str] | None:
    """Return the classes that a list requests; None if the list is invalid."""
    if not isinstance(items, list):
        return None
    found: dict[str, str] = {}
    for item in items:
        kind, name = (item.get("name"), item.get("class")) if isinstance(item, dict) else (None, None)
        if not (isinstance(kind, str) and isinstance(name, str) and kind and name) or stored_type(kind) in found:
            return None
        found[stored_type(kind)] = name
    return found


def _items(value: Any) -> Iterator[JsonObject]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def validate_other_form(
    items: Sequence[JsonObject], classes: Mapping[str, str], path: str, errors: FieldErrors
) -> None:
    """Report the errors of a list that could not be rewritten."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        at, kind, name = f"{path}[{index}]", stored_type(item.get("name", "")), item.get("class", "")
        classrules.type_name(kind, f"{at}.name", errors)
        classrules.class_name(name, f"{at}.class", errors)
        if kind in seen:
            errors.duplicate(f"{at}.name", item.get("name", ""))
        seen.add(kind)
        if classes.get(kind, name) != name:
            errors.invalid(f"{at}.class", name, f"must be {classes[kind]}, as classes[{kind}] says, or left out")


def validate_annotations_unchanged(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Reject added, changed and removed annotations that request classes: they are fixed when a Pod is created."""
    after, before = (each["metadata"].get("annotations") or {} for each in (new, old))
    if after != before:
        for key in changed_annotations(after, before):
            errors.forbidden(
                f"metadata.annotations[{key}]", "may not be added, changed or removed: it asks for a class"
            )


def changed_annotations(after: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Return the changed keys of annotations that request classes."""
    now, was = class_annotations(after), class_annotations(before)
    return sorted(key for key in now.keys() | was.keys() if now.get(key) != was.get(key))


def validate_classes_resized(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Reject changes of a class that an annotation sets. Both Pods have the same containers and annotations."""
    pairs = zip(classes_of_containers(new), classes_of_containers(old), strict=True)
    for (container, now), (before, was) in pairs:
        if now != was:
            for kind in sorted(kind for kind in was if now.get(kind) != was[kind]):
                _validate_given(old, container, before, kind, errors)


def _validate_given(old: JsonObject, container: JsonObject, before: JsonObject, kind: str, errors: FieldErrors) -> None:
    key = annotation_giving(old, before, kind)
    if key is not None:
        name = container.get("name", "")
        detail = f"the class of container {name} comes from the annotation {key} and cannot be changed"
        errors.forbidden(f"{container_path(old['spec'], name)}.resources.classes[{kind}]", detail)


def container_path(spec: JsonObject, name: str) -> str:
    """Return the path of the container of this name."""
    return next(
        f"spec.{field}[{index}]"
        for field in _LISTS
        for index, container in enumerate(spec.get(field) or ())
        if container.get("name", "") == name
    )
