"""PersistentVolumeClaim: defaults, validation and permitted changes (mostly growth)."""

from __future__ import annotations

import copy

from tarmac.api import checks
from tarmac.api.kubernetes.changes import describe, keep
from tarmac.api.kubernetes.resourcenames import ZERO, quantity, round_up
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_OLD_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


class ClaimStrategy(KubernetesStrategy):
    """PersistentVolumeClaim."""

    has_status = True
    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("volumeMode", "Filesystem")
        resources = spec.setdefault("resources", {})
        round_up(resources.get("requests"))
        round_up(resources.get("limits"))
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Pending"}
        spec = obj["spec"]
        if "dataSource" in spec and _kind_of(spec["dataSource"]) not in _OLD_SOURCES:
            del spec["dataSource"]  # the old field never accepted other kinds, and dropped them silently
        _copy_data_source(spec)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")
        _copy_data_source(new["spec"])

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        validate_spec(obj["spec"], "spec", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        _validate_unchanged(new, old, errors)
        size, before = _size(new["spec"]), _size(old["spec"])
        if size < before and size <= _amount((old.get("status") or {}).get("capacity")):
            errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
        checks.immutable(new["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode", errors)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        for name, text in ((new.get("status") or {}).get("capacity") or {}).items():
            amount = quantity(text)
            if amount < ZERO:
                errors.invalid(f"status.capacity[{name}]", amount.value(), "must be a valid resource quantity")

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        found: list[str] = []
        if CLASS_ANNOTATION in checks.annotations_of(obj):
            found.append(
                f"metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; "
                'use "storageClassName" attribute instead'
            )
        text = ((obj["spec"].get("resources") or {}).get("requests") or {}).get("storage")
        if text is not None and not quantity(text).is_integer():
            found.append(
                f'spec.resources.requests[storage]: fractional byte value "{text}" is invalid, must be an integer'
            )
        return found


def _kind_of(source: JsonObject) -> tuple[str, str]:
    return source.get("apiGroup") or "", source.get("kind", "")


def _copy_data_source(spec: JsonObject) -> None:
    """Make `dataSource` and `dataSourceRef` equal, unless the latter refers to another namespace."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def validate_template(template: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check the claim template of an ephemeral volume."""
    metadata = template.get("metadata") or {}
    if labels := metadata.get("labels"):
        checks.labels(labels, f"{path}.metadata.labels", errors)
    for field in metadata:
        if field not in ("labels", "annotations", "creationTimestamp"):
            errors.forbidden(f"{path}.metadata.{field}", "cannot be set")
    validate_spec(template.get("spec") or {}, f"{path}.spec", errors)


def validate_spec(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check the spec of a claim or claim template."""
    modes = spec.get("accessModes") or ()
    if not modes:
        errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    checks.label_selector(spec.get("selector"), f"{path}.selector", errors)
    validate_access_modes(modes, f"{path}.accessModes", errors)
    _validate_storage(spec, f"{path}.resources[storage]", errors)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if name := spec.get(field):
            checks.dns_subdomain(name, f"{path}.{field}", errors)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.not_supported(f"{path}.volumeMode", mode, VOLUME_MODES)
    for field in ("dataSource", "dataSourceRef"):
        if (source := spec.get(field)) is not None:
            _validate_data_source(source, f"{path}.{field}", errors)


def validate_access_modes(modes: list[str] | tuple[()], path: str, errors: FieldErrors) -> None:
    """Check for known modes; ReadWriteOncePod excludes other modes."""
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.not_supported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES[:3] for mode in modes):
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _validate_storage(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if text is None:
        errors.required(path)
    elif quantity(text) <= ZERO:
        errors.invalid(path, text, "must be greater than zero")


def _validate_data_source(source: JsonObject, path: str, errors: FieldErrors) -> None:
    for field in ("name", "kind"):
        if not source.get(field):
            errors.required(f"{path}.{field}")
    group = source.get("apiGroup") or ""
    if group:
        checks.dns_subdomain(group, f"{path}.apiGroup", errors)
    elif source.get("kind") != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.invalid(path, source.get("kind", ""), detail)
    if namespace := source.get("namespace"):
        checks.dns_label(namespace, f"{path}.namespace", errors)


def validate_driver_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check the name of a CSI driver."""
    if not name:
        errors.required(path)
        return
    if len(name) > 63:
        errors.too_long(path, name, 63)
    checks.report(names.dns1123_subdomain(name.lower()), name, path, errors)


def _validate_unchanged(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    spec, before = copy.deepcopy(new["spec"]), old["spec"]
    if not before.get("volumeName"):
        keep(spec, before, "volumeName")
    path = f"metadata.annotations.{CLASS_ANNOTATION}"
    was = checks.annotations_of(old).get(CLASS_ANNOTATION)
    now = checks.annotations_of(new).get(CLASS_ANNOTATION)
    if (was or "") != (now or ""):
        errors.invalid(path, now or "", checks.IMMUTABLE)
    name = spec.get("storageClassName")
    if "storageClassName" not in before and name is not None and was in (None, name):
        keep(spec, before, "storageClassName")
    if (new.get("status") or {}).get("phase") == "Bound":
        keep(spec, before, "volumeAttributesClassName")
        if requests := (spec.get("resources") or {}).get("requests"):
            keep(requests, (before.get("resources") or {}).get("requests") or {}, "storage")
    if spec != before:
        errors.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
            f"claims\n{describe(before, spec)}",
        )


def _size(spec: JsonObject) -> Quantity:
    return _amount((spec.get("resources") or {}).get("requests"))


def _amount(amounts: JsonObject | None) -> Quantity:
    return quantity((amounts or {}).get("storage", "0"))
