"""ResourceClaim, ResourceClaimTemplate and DeviceClass."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tarmac.api import checks
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.core.nodeselection import validate_node_selector
from tarmac.api.kubernetes.core.volumeclaims import validate_driver_name
from tarmac.api.kubernetes.devices.devicenames import (
    MAX_REQUESTS,
    configuration,
    each,
    pool_name,
    raw_object,
    selector,
    unique,
)
from tarmac.api.kubernetes.devices.requests import (
    Names,
    default_devices,
    drop_disabled,
    names_of,
    validate_devices,
    validate_reference,
    validate_references,
)
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_MAX_CONSUMERS: Final = 256
_MAX_CONDITIONS: Final = 8
_SOURCES: Final = ("FromClaim", "FromClass")
_OF_RESULTS: Final = ("shareID", "consumedCapacity", "bindingConditions", "bindingFailureConditions")


class ResourceClaimStrategy(KubernetesStrategy):
    """ResourceClaim."""

    has_status = True
    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        default_devices(obj.setdefault("spec", {}))

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {}
        drop_disabled(obj["spec"])

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")
        drop_disabled(new["spec"])

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        # unlike most of Kubernetes' own kinds, only the status may change here
        Strategy.prepare_for_status_update(self, new, old)
        _drop_deallocated(new, old)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        validate_devices(obj["spec"], "spec", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        checks.immutable(new["spec"], old["spec"], "spec", errors)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        status, before = checks.mapping(new, "status"), checks.mapping(old, "status")
        allocation, known = status.get("allocation"), names_of(new["spec"])
        _validate_consumers(new, status, before, errors)
        allocated = {_device(each) for each in checks.objects(allocation, "devices", "results")}
        reported = partial(_validate_device, allocated)
        unique(status.get("devices") or (), MAX_REQUESTS, reported, _device, "status.devices", errors)
        if allocation is not None and before.get("allocation") is not None:
            checks.immutable(allocation, before["allocation"], "status.allocation", errors)
        elif allocation is not None:
            _validate_allocation(known, allocation, errors)


def _device(item: JsonObject) -> tuple[str, ...]:
    return tuple(item.get(field, "") for field in ("driver", "pool", "device"))


def _drop_deallocated(new: JsonObject, old: JsonObject) -> None:
    """Drop fields of disabled features, and reports about devices that the claim has no longer."""
    status = checks.mapping(new, "status")
    results = checks.objects(status, "allocation", "devices", "results")
    for result in results:
        for field in _OF_RESULTS:
            result.pop(field, None)
    before = {_device(each) for each in checks.objects(old, "status", "allocation", "devices", "results")}
    gone = before - {_device(each) for each in results}
    if "devices" in status:
        status["devices"] = [each for each in status["devices"] if _device(each) not in gone]
        if not status["devices"]:
            del status["devices"]


def _validate_consumers(claim: JsonObject, status: JsonObject, before: JsonObject, errors: FieldErrors) -> None:
    path, consumers = "status.reservedFor", status.get("reservedFor") or []
    unique(consumers, _MAX_CONSUMERS, _validate_consumer, lambda each: each.get("uid", ""), path, errors)
    if not consumers:
        return
    if status.get("allocation") is None:
        errors.forbidden(path, "may not be specified when `allocated` is not set")
    elif "deletionTimestamp" in claim["metadata"]:
        known: list[Any] = before.get("reservedFor") or []
        if any(each not in known for each in consumers):
            text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            errors.forbidden(path, text)


def _validate_consumer(consumer: JsonObject, path: str, errors: FieldErrors) -> None:
    for field in ("resource", "name", "uid"):
        if not consumer.get(field):
            errors.required(f"{path}.{field}")


def _validate_allocation(known: Names, allocation: JsonObject, errors: FieldErrors) -> None:
    path, devices = "status.allocation.devices", checks.mapping(allocation, "devices")
    each(devices.get("results") or (), MAX_REQUESTS, partial(_validate_result, known), f"{path}.results", errors)
    configured = partial(_validate_applied, known)
    each(devices.get("config") or (), 2 * MAX_REQUESTS, configured, f"{path}.config", errors)
    if (nodes := allocation.get("nodeSelector")) is not None:
        validate_node_selector(nodes, "status.allocation.nodeSelector", errors)


def _validate_result(known: Names, result: JsonObject, path: str, errors: FieldErrors) -> None:
    validate_reference(known, result.get("request", ""), f"{path}.request", errors)
    _validate_location(result, path, errors)


def _validate_location(item: JsonObject, path: str, errors: FieldErrors) -> None:
    validate_driver_name(item.get("driver", ""), f"{path}.driver", errors)
    pool_name(item.get("pool", ""), f"{path}.pool", errors)
    checks.dns_label(item.get("device", ""), f"{path}.device", errors)


def _validate_applied(known: Names, item: JsonObject, path: str, errors: FieldErrors) -> None:
    source = item.get("source", "")
    if not source:
        errors.required(f"{path}.source")
    elif source not in _SOURCES:
        errors.not_supported(f"{path}.source", source, _SOURCES)
    validate_references(known, item, path, errors)
    configuration(item, path, errors)


def _validate_device(allocated: set[tuple[str, ...]], item: JsonObject, path: str, errors: FieldErrors) -> None:
    _validate_location(item, path, errors)
    if _device(item) not in allocated:
        errors.invalid(path, "/".join(_device(item)), "must be an allocated device in the claim")
    if len(conditions := item.get("conditions") or ()) > _MAX_CONDITIONS:
        errors.too_many(f"{path}.conditions", len(conditions), _MAX_CONDITIONS)
    if item.get("data") is not None:
        raw_object(item["data"], f"{path}.data", errors)


class ResourceClaimTemplateStrategy(KubernetesStrategy):
    """ResourceClaimTemplate."""

    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        default_devices(obj.setdefault("spec", {}).setdefault("spec", {}))

    def prepare_for_create(self, obj: JsonObject) -> None:
        drop_disabled(obj["spec"]["spec"])

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        drop_disabled(new["spec"]["spec"])

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        checks.labels(checks.mapping(obj, "spec", "metadata", "labels"), "spec.metadata.labels", errors)
        validate_devices(obj["spec"]["spec"], "spec.spec", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        checks.immutable(new["spec"], old["spec"], "spec", errors)


class DeviceClassStrategy(KubernetesStrategy):
    """DeviceClass."""

    generation = True
    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["spec"].pop("extendedResourceName", None)  # of a feature that is alpha in Kubernetes 1.35

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        self.prepare_for_create(new)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        each(spec.get("selectors") or (), MAX_REQUESTS, selector, "spec.selectors", errors)
        each(spec.get("config") or (), MAX_REQUESTS, configuration, "spec.config", errors)
