"""Validation of a container's volume mounts and raw block devices against the pod's volumes."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def validate_mounts_and_devices(
    container: JsonObject, path: str, volumes: dict[str, JsonObject], errors: FieldErrors
) -> None:
    """Check `volumeMounts` and `volumeDevices`, which may not overlap."""
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    device_paths = {device.get("name", ""): device.get("devicePath", "") for device in devices}
    mount_paths = {mount.get("name", ""): mount.get("mountPath", "") for mount in mounts}
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        at = f"{path}.volumeMounts[{index}]"
        _validate_mount(mount, at, volumes, device_paths, seen, errors)
        # Kubernetes reports these without the index
        _validate_mount_options(mount, container, f"{path}.volumeMounts", at, errors)
    if devices:
        _validate_devices(devices, f"{path}.volumeDevices", volumes, mount_paths, errors)


def _validate_mount(
    mount: JsonObject,
    path: str,
    volumes: dict[str, JsonObject],
    device_paths: dict[str, str],
    seen: set[str],
    errors: FieldErrors,
) -> None:
    name, where = mount.get("name", ""), mount.get("mountPath", "")
    if not name:
        errors.required(f"{path}.name")
    if name not in volumes:
        errors.not_found(f"{path}.name", name)
    if not where:
        errors.required(f"{path}.mountPath")
    if where in seen:
        errors.invalid(f"{path}.mountPath", where, "must be unique")
    seen.add(where)
    if name in device_paths:
        errors.invalid(f"{path}.name", name, "must not already exist in volumeDevices")
    if where in device_paths.values():
        errors.invalid(f"{path}.mountPath", where, "must not already exist as a path in volumeDevices")


def _validate_mount_options(
    mount: JsonObject, container: JsonObject, path: str, indexed: str, errors: FieldErrors
) -> None:
    if sub_path := mount.get("subPath"):
        checks.relative_path(sub_path, f"{path}.subPath", errors)
    if expression := mount.get("subPathExpr"):
        if sub_path:
            errors.invalid(f"{indexed}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        checks.relative_path(expression, f"{path}.subPathExpr", errors)
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        at = f"{path}.mountPropagation"
        if propagation not in _PROPAGATIONS:
            errors.not_supported(at, propagation, _PROPAGATIONS)
        elif propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            errors.forbidden(at, "Bidirectional mount propagation is available only to privileged containers")
    recursive = mount.get("recursiveReadOnly")
    if recursive is not None and recursive != "Disabled":
        _validate_recursive(mount, recursive, f"{path}.recursiveReadOnly", errors)


def _validate_recursive(mount: JsonObject, recursive: str, path: str, errors: FieldErrors) -> None:
    if recursive not in _RECURSIVE:
        errors.not_supported(path, recursive, _RECURSIVE)
        return
    if not mount.get("readOnly"):
        errors.forbidden(path, "may only be specified when readOnly is true")
    if mount.get("mountPropagation", "None") != "None":
        errors.forbidden(path, "may only be specified when mountPropagation is None or not specified")


def _validate_devices(
    devices: list[JsonObject],
    path: str,
    volumes: dict[str, JsonObject],
    mount_paths: dict[str, str],
    errors: FieldErrors,
) -> None:
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(devices):
        at = f"{path}[{index}]"
        name, where = device.get("name", ""), device.get("devicePath", "")
        _validate_device_name(name, at, volumes, mount_paths, seen_names, errors)
        if not where:
            errors.required(f"{at}.devicePath")
        if where in seen_paths:
            errors.invalid(f"{at}.devicePath", where, "must be unique")
        if ".." in where.split("/"):
            errors.invalid(f"{at}.devicePath", where, "can not contain backsteps ('..')")
        else:
            seen_paths.add(where)
        if where in mount_paths.values():
            errors.invalid(f"{at}.devicePath", where, "must not already exist as a path in volumeMounts")


def _validate_device_name(
    name: str,
    path: str,
    volumes: dict[str, JsonObject],
    mount_paths: dict[str, str],
    seen: set[str],
    errors: FieldErrors,
) -> None:
    if not name:
        errors.required(f"{path}.name")
    if name in seen:
        errors.invalid(f"{path}.name", name, "must be unique")
    volume = volumes.get(name)
    if volume is None:
        errors.not_found(f"{path}.name", name)
    elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        errors.invalid(
            f"{path}.name",
            name,
            "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        )
    if name in mount_paths:
        errors.invalid(f"{path}.name", name, "must not already exist in volumeMounts")
    if name:
        seen.add(name)
