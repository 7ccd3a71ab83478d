"""VolumeAttachment and VolumeAttributesClass."""

from __future__ import annotations

from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.clusterclasses import validate_parameters
from tarmac.api.kubernetes.core.volumeclaims import validate_driver_name
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
_SOURCE: Final = "spec.source"


class VolumeAttachmentStrategy(KubernetesStrategy):
    """VolumeAttachment."""

    has_status = True
    allow_unconditional_update = False
    returns_deleted = True

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {"attached": False}

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        # unlike most of Kubernetes' own kinds, only the status may change here
        Strategy.prepare_for_status_update(self, new, old)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = checks.mapping(obj, "spec")
        attacher = spec.get("attacher", "")
        if not attacher:
            errors.required("spec.attacher")
        _validate_source(checks.mapping(spec, "source"), errors)
        node = spec.get("nodeName", "")
        checks.dns_subdomain(node, "spec.nodeName", errors)
        validate_driver_name(attacher, "spec.attacher", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        checks.immutable(new.get("spec"), old.get("spec"), "spec", errors)


def _validate_source(source: JsonObject, errors: FieldErrors) -> None:
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        errors.required(_SOURCE, _ONE_SOURCE)
    elif inline is not None and name is not None:
        errors.forbidden(_SOURCE, _ONE_SOURCE)
    elif name == "":
        errors.required(f"{_SOURCE}.persistentVolumeName", "must specify non empty persistentVolumeName")
    elif name is not None:
        checks.dns_subdomain(name, f"{_SOURCE}.persistentVolumeName", errors)


class VolumeAttributesClassStrategy(KubernetesStrategy):
    """VolumeAttributesClass."""

    returns_deleted = True

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        driver = obj.get("driverName", "")
        if not driver:
            errors.required("driverName")
        else:
            checks.qualified_name(driver.lower(), "driverName", errors)
        parameters = obj.get("parameters") or {}
        validate_parameters(parameters, errors)
        if not parameters:
            errors.required("parameters", "must contain at least one key/value pair")

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        for field in ("driverName", "parameters"):
            if (new.get(field) or None) != (old.get(field) or None):
                errors.forbidden(field, f"updates to {field} are forbidden.")
        self.validate(new, errors)
