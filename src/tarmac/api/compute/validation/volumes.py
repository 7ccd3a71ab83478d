"""Volumes: one source each, attached somewhere, with contents that make sense."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from tarmac.api.compute.validation.amounts import amount
from tarmac.api.kubernetes import checks
from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity

GIB = 1 << 30
DISK_TYPES = ("pd-standard",)
FILESYSTEMS = ("ext4",)
# Operating system images, and how much room each needs.
IMAGES = {"datumcloud/ubuntu-2204-lts": Quantity.parse("25Gi")}
MIN_DISK, MAX_DISK = Quantity.parse("10Gi"), Quantity.parse("100Gi")

_device_name = re.compile(r"[a-z0-9-]{1,60}").fullmatch


def check_volumes(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Every volume of a template's spec."""
    attached = attached_names(spec)
    names: set[str] = set()
    devices: set[str] = set()
    for index, volume in enumerate(objects(spec, "volumes")):
        where = f"{path}.volumes[{index}]"
        _name(volume.get("name", ""), names, attached, f"{where}.name", errors)
        device = mapping(volume, "disk").get("deviceName")
        if device:
            _device(device, devices, f"{where}.disk.deviceName", errors)
        _source(volume, where, errors)


def attached_names(spec: JsonObject) -> set[str]:
    """Names of volumes that something attaches. A runtime that is one too many counts as well."""
    runtime = mapping(spec, "runtime")
    sandbox = mapping(runtime, "sandbox")
    users = [*objects(sandbox, "containers"), *objects(sandbox, "initContainers"), mapping(runtime, "virtualMachine")]
    return {attachment.get("name", "") for user in users for attachment in objects(user, "volumeAttachments")}


def _name(name: str, seen: set[str], attached: set[str], path: str, errors: FieldErrors) -> None:
    if not name:
        errors.required(path)
        return
    if name in seen:
        errors.duplicate(path, name)
        return
    seen.add(name)
    checks.dns_label(name, path, errors)
    if name not in attached:
        errors.required(path, "volume must be attached at least 1 time")


def _device(name: str, seen: set[str], path: str, errors: FieldErrors) -> None:
    if not _device_name(name):
        errors.invalid(path, name, "must consist of at most 60 lower case letters, digits or '-'")
    elif name in seen:
        errors.duplicate(path, name)
    seen.add(name)


def _source(volume: JsonObject, path: str, errors: FieldErrors) -> None:
    chosen = [source for source in _SOURCES if volume.get(source) is not None]
    if not chosen:
        errors.required(path, f"must specify a volume source: one of {', '.join(_SOURCES)}")
        return
    _SOURCES[chosen[0]](volume[chosen[0]], f"{path}.{chosen[0]}", errors)
    for source in chosen[1:]:
        errors.forbidden(f"{path}.{source}", "may not specify more than 1 volume source")


def _disk(disk: JsonObject, path: str, errors: FieldErrors) -> None:
    template = disk.get("template")
    if template is None or template.get("spec") is None:
        errors.required(f"{path}.template" if template is None else f"{path}.template.spec")
        return
    checks.labels(mapping(template, "metadata").get("labels") or {}, f"{path}.template.metadata.labels", errors)
    spec, where = template["spec"], f"{path}.template.spec"
    checks.one_of(spec.get("type", DISK_TYPES[0]), DISK_TYPES, f"{where}.type", errors)
    needed = _populator(mapping(spec, "populator"), f"{where}.populator", errors)
    _size(spec, needed, where, errors)


def _populator(populator: JsonObject, path: str, errors: FieldErrors) -> Quantity | None:
    """Checks what fills the disk, and says how much room that needs."""
    image, filesystem = populator.get("image"), populator.get("filesystem")
    if image is not None:
        checks.one_of(image.get("name", ""), tuple(IMAGES), f"{path}.image.name", errors)
        if filesystem is not None:
            errors.forbidden(f"{path}.filesystem", "may not specify more than 1 populator")
        return IMAGES.get(image.get("name", ""), MIN_DISK)
    if filesystem is not None:
        checks.one_of(filesystem.get("type", ""), FILESYSTEMS, f"{path}.filesystem.type", errors)
    return None


def _size(spec: JsonObject, needed: Quantity | None, path: str, errors: FieldErrors) -> None:
    resources = spec.get("resources")
    if resources is None:
        if needed is None:
            errors.required(f"{path}.resources", "must be set when the populator does not imply a size")
        return
    requests = resources.get("requests")
    if not requests:
        errors.required(f"{path}.resources.requests")
        return
    where = f"{path}.resources.requests[storage]"
    if "storage" not in requests:
        errors.required(where)
        return
    _storage(requests["storage"], needed, where, errors)


def _storage(written: str, needed: Quantity | None, path: str, errors: FieldErrors) -> None:
    size = amount("storage", written, path, errors)
    if size is None:
        return
    if not size:
        errors.invalid(path, written, "must be greater than zero")
    elif not MIN_DISK <= size <= MAX_DISK:
        errors.invalid(path, written, f"must be between {MIN_DISK} and {MAX_DISK}, inclusive")
    elif size.value() % GIB:
        errors.invalid(path, written, "must be a multiple of 1Gi")
    elif needed is not None and size < needed:
        errors.invalid(path, written, f"must be at least {needed}, the size of the image")


def _keys(named_by: str, source: JsonObject, path: str, errors: FieldErrors) -> None:
    """Keys of the ConfigMap or Secret that the field `named_by` names, as files."""
    if not source.get(named_by):
        errors.required(f"{path}.{named_by}")
    for where, item in _items(source, path, errors):
        if not item.get("key"):
            errors.required(f"{where}.key")
        _file(item, where, errors)


def _downward(source: JsonObject, path: str, errors: FieldErrors) -> None:
    for where, item in _items(source, path, errors):
        _file(item, where, errors)
        if not mapping(item, "fieldRef").get("fieldPath"):
            errors.required(f"{where}.fieldRef.fieldPath")


def _items(source: JsonObject, path: str, errors: FieldErrors) -> Iterator[tuple[str, JsonObject]]:
    checks.file_mode(source, "defaultMode", path, errors)
    for index, item in enumerate(objects(source, "items")):
        yield f"{path}.items[{index}]", item


def _file(item: JsonObject, path: str, errors: FieldErrors) -> None:
    if not item.get("path"):
        errors.required(f"{path}.path")
    else:
        checks.relative_path(item["path"], f"{path}.path", errors)
    checks.file_mode(item, "mode", path, errors)


def _memory(source: JsonObject, path: str, errors: FieldErrors) -> None:
    if source.get("sizeLimit") is not None:
        amount("memory", source["sizeLimit"], f"{path}.sizeLimit", errors)


# In the order in which a second one is refused.
_SOURCES: dict[str, Callable[[JsonObject, str, FieldErrors], None]] = {
    "disk": _disk,
    "configMap": partial(_keys, "name"),
    "secret": partial(_keys, "secretName"),
    "downwardAPI": _downward,
    "memory": _memory,
}
