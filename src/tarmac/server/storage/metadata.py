"""Object metadata: fields set by the system, fields set by clients, and the rules for both.

Requests bring arbitrary metadata. `stamp` sets the identity of a new object; for an update `carry_over` copies from the
stored object the fields that no client can change. Messages are Kubernetes' own, word for word, since people and tools
parse them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tarmac.api.decode.limits import MAX_LABELS
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import misplaced
from tarmac.base import names
from tarmac.base.boundedcache import bounded_cache
from tarmac.base.fielderrors import FieldErrors

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

_STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN, FOREGROUND})
# bytes of all keys and values, kube-apiserver's TotalAnnotationSizeLimitB
_ANNOTATIONS_LIMIT = 256 << 10
_TRACES = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion")
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_CHECKED = ("labels", "annotations", "ownerReferences")
GENERATED_NAME_BASE = 63 - 5

_label_key = bounded_cache(4096)(names.qualified_name)
_label_value = bounded_cache(4096)(names.label_value)
_namespace_name = bounded_cache(1024)(names.dns1123_label)


def place(resource: Resource, metadata: JsonObject, namespace: str) -> None:
    """Set the namespace of the URL. Raises BadRequest when a namespaced object states a different one."""
    if resource.namespaced:
        if metadata.setdefault("namespace", namespace) in ("", namespace):
            metadata["namespace"] = namespace
            return
        raise misplaced()
    metadata.pop("namespace", None)  # ignored for cluster-scoped kinds


def wipe(metadata: JsonObject) -> None:
    """Remove fields of an earlier object, before field managers are recorded."""
    for field in _TRACES:
        metadata.pop(field, None)


def stamp(metadata: JsonObject, uid: str, now: str) -> None:
    """Set uid and creation time of a new object."""
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now


def carry_over(new: JsonObject, old: JsonObject) -> None:
    """Copy the fields that an update cannot change from the old metadata."""
    new.pop("selfLink", None)
    # Never from the request: an update could otherwise begin a deletion without DELETE's admission, or undo one.
    for field in ("creationTimestamp", "deletionTimestamp"):
        if field in old:
            new[field] = old[field]
    for field in ("deletionGracePeriodSeconds", "uid"):
        if field in old and not new.get(field):
            new[field] = old[field]
    if "generation" in old:
        new["generation"] = old["generation"]
    else:
        new.pop("generation", None)


def generated_name(base: str, suffix: str) -> str:
    """Return `base`, cut so that the name fits a label, plus the suffix."""
    return base[:GENERATED_NAME_BASE] + suffix


def validate(resource: Resource, metadata: JsonObject, errors: FieldErrors) -> None:
    """Validate the metadata of a new object."""
    check_name = resource.validate_name or names.dns1123_subdomain
    prefix = metadata.get("generateName")
    if prefix:
        _add(errors, "metadata.generateName", prefix, check_name(_without_trailing_dash(prefix)))
    name = metadata.get("name")
    if name:
        _add(errors, "metadata.name", name, check_name(name))
    else:
        errors.required("metadata.name", "name or generateName is required")
    _validate_namespace(resource, metadata.get("namespace"), errors)
    if metadata.get("generation", 0) < 0:
        errors.invalid("metadata.generation", metadata["generation"], "must be greater than or equal to 0")
    if len(labels := metadata.get("labels") or ()) > MAX_LABELS:  # the request had fewer; defaults added some
        errors.too_many("metadata.labels", len(labels), MAX_LABELS)
    _validate_common(metadata, errors)
    _validate_finalizers(metadata.get("finalizers") or (), errors)


def validate_update(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Validate changed metadata. Kubernetes validates it twice and reports every error twice; so does this."""
    if new.get("finalizers") != old.get("finalizers"):
        _validate_finalizers(new.get("finalizers") or (), errors)
    changed = [new.get(field) for field in _CHECKED] != [old.get(field) for field in _CHECKED]
    if changed:
        _validate_common(new, errors)
    elif "deletionTimestamp" not in old and [new.get(field) for field in _IMMUTABLE] == [
        old.get(field) for field in _IMMUTABLE
    ]:
        return
    for _ in range(2):
        _validate_change(new, old, errors)
        if changed:
            _validate_common(new, errors)


def _validate_change(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            why = "no new finalizers can be added if the object is being deleted, found new finalizers"
            errors.forbidden("metadata.finalizers", f"{why} []string{{{shown}}}")
    for field in _IMMUTABLE:
        if new.get(field) != old.get(field):
            errors.invalid(f"metadata.{field}", new.get(field), "field is immutable")


def _without_trailing_dash(prefix: str) -> str:
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _validate_namespace(resource: Resource, namespace: str | None, errors: FieldErrors) -> None:
    if not resource.namespaced:
        if namespace:
            errors.forbidden("metadata.namespace", "not allowed on this type")
    elif not namespace:
        errors.required("metadata.namespace")
    else:
        _add(errors, "metadata.namespace", namespace, _namespace_name(namespace))


def _validate_common(metadata: JsonObject, errors: FieldErrors) -> None:
    labels = metadata.get("labels")
    if labels:
        for key, value in labels.items():
            _add(errors, "metadata.labels", key, _label_key(key))
            _add(errors, "metadata.labels", value, _label_value(value))
    annotations = metadata.get("annotations")
    if annotations:
        _validate_annotations(annotations, errors)
    owners = metadata.get("ownerReferences")
    if owners:
        _validate_owners(owners, errors)


def _validate_annotations(annotations: dict[str, str], errors: FieldErrors) -> None:
    size = 0
    for key, value in annotations.items():
        _add(errors, "metadata.annotations", key, _label_key(key.lower()))
        size += len(key) + (len(value) if value.isascii() else len(value.encode()))
    if size > _ANNOTATIONS_LIMIT:
        errors.too_long("metadata.annotations", "", _ANNOTATIONS_LIMIT)


def _validate_owners(owners: list[JsonObject], errors: FieldErrors) -> None:
    path = "metadata.ownerReferences"
    controller = ""
    for owner in owners:
        api_version = owner.get("apiVersion", "")
        if not api_version.rpartition("/")[2]:
            errors.invalid(f"{path}.apiVersion", api_version, "version must not be empty")
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                errors.invalid(f"{path}.{field}", "", "must not be empty")
        if (api_version, owner.get("kind")) == ("v1", "Event"):
            errors.invalid(path, _in_order(owner), "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                errors.invalid(
                    path,
                    [_in_order(one) for one in owners],
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {this}',
                )
            controller = controller or this


def _in_order(owner: JsonObject) -> JsonObject:
    """Return the fields in the order in which Go prints them."""
    return {field: owner[field] for field in _OWNER_FIELDS if field in owner}


def _validate_finalizers(finalizers: Sequence[str], errors: FieldErrors) -> None:
    _validate_finalizer_names(finalizers, errors)
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            errors.invalid(f"metadata.finalizers[{index}]", finalizer, why)


def _validate_finalizer_names(finalizers: Sequence[str], errors: FieldErrors) -> None:
    path = "metadata.finalizers"
    for finalizer in finalizers:
        _add(errors, path, finalizer, _label_key(finalizer))
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        errors.invalid(path, list(finalizers), f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set")


def _add(errors: FieldErrors, path: str, value: Any, messages: list[str]) -> None:
    for message in messages:
        errors.invalid(path, value, message)
