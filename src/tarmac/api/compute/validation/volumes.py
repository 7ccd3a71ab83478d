"""Volumes: one source each, attached at least once, with valid content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.compute.validation.amounts import amount
from tarmac.api.compute.validation.context import Context
from tarmac.api.compute.validation.disks import check_disk
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_device_name = re.compile(r"[a-z0-9-]{1,60}").fullmatch


def check_volumes(spec: JsonObject, path: str, context: Context) -> None:
    """Check every volume of a template's spec."""
    errors = context.errors
    attached = attached_names(spec)
    names: set[str] = set()
    devices: set[str] = set()
    for index, volume in enumerate(objects(spec, "volumes")):
        where = f"{path}.volumes[{index}]"
        _name(volume.get("name", ""), names, attached, f"{where}.name", errors)
        device = mapping(volume, "disk").get("deviceName")
        if device:
            _device(device, devices, f"{where}.disk.deviceName", errors)
        _source(volume, where, context)


def attached_names(spec: JsonObject) -> set[str]:
    """Return the names of attached volumes. Both runtimes count if a template has two by mistake."""
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


def _source(volume: JsonObject, path: str, context: Context) -> None:
    errors = context.errors
    chosen = [source for source in _SOURCES if volume.get(source) is not None]
    if not chosen:
        errors.required(path, f"must specify a volume source: one of {', '.join(_SOURCES)}")
        return
    _SOURCES[chosen[0]](volume[chosen[0]], f"{path}.{chosen[0]}", context)
    for source in chosen[1:]:
        errors.forbidden(f"{path}.{source}", "may not specify more than 1 volume source")


def _keys(named_by: str, source: JsonObject, path: str, context: Context) -> None:
    """Check keys as files, of the ConfigMap or Secret that the field `named_by` names."""
    errors = context.errors
    if not source.get(named_by):
        errors.required(f"{path}.{named_by}")
    for where, item in _items(source, path, errors):
        if not item.get("key"):
            errors.required(f"{where}.key")
        _file(item, where, errors)


def _downward(source: JsonObject, path: str, context: Context) -> None:
    errors = context.errors
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


def _memory(source: JsonObject, path: str, context: Context) -> None:
    if source.get("sizeLimit") is not None:
        amount("memory", source["sizeLimit"], f"{path}.sizeLimit", context.errors)


# In the order in which a second one is rejected.
_SOURCES: dict[str, Callable[[JsonObject, str, Context], None]] = {
    "disk": check_disk,
    "configMap": partial(_keys, "name"),
    "secret": partial(_keys, "secretName"),
    "downwardAPI": _downward,
    "memory": _memory,
}
