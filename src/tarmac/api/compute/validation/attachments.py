"""Attachments of volumes to containers and virtual machines."""

from __future__ import annotations

from tarmac.api.checks import mapping, no_backsteps, objects
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

Volumes = dict[str, JsonObject]


def volumes_by_name(spec: JsonObject) -> Volumes:
    """Return the volumes of a template's spec by name."""
    return {volume.get("name", ""): volume for volume in objects(spec, "volumes")}


def check_attachments(user: JsonObject, volumes: Volumes, path: str, errors: FieldErrors, *, container: bool) -> None:
    """Check the volume attachments of a container or a virtual machine."""
    mount_paths: set[str] = set()
    for index, attachment in enumerate(objects(user, "volumeAttachments")):
        where = f"{path}.volumeAttachments[{index}]"
        volume = _volume(attachment, volumes, f"{where}.name", errors)
        if volume is not None:
            _fit(attachment, volume, where, errors, container=container)
        mount_path = attachment.get("mountPath")
        if mount_path:
            _mount_path(mount_path, mount_paths, f"{where}.mountPath", errors)


def _volume(attachment: JsonObject, volumes: Volumes, path: str, errors: FieldErrors) -> JsonObject | None:
    name = attachment.get("name", "")
    if not name:
        errors.required(path)
    elif name not in volumes:
        errors.not_found(path, name)
    return volumes.get(name)


def _fit(attachment: JsonObject, volume: JsonObject, path: str, errors: FieldErrors, *, container: bool) -> None:
    disk = volume.get("disk")
    if attachment.get("deviceName") is not None:
        _leftover_device_name(disk, f"{path}.deviceName", errors)
    if attachment.get("mountPath"):
        if disk is not None and not mapping(disk, "template", "spec", "populator"):
            value = attachment.get("name")
            errors.not_found(f"{path}.mountPath", value, "unable to determine if volume's disk has a filesystem")
    elif disk is None and container:
        errors.required(f"{path}.mountPath", "a volume that is not a disk must be mounted")


def _leftover_device_name(disk: JsonObject | None, path: str, errors: FieldErrors) -> None:
    """Reject a device name on an attachment.

    Normalising moves it to the disk; one that is still here could not be moved.
    """
    if disk is None:
        errors.forbidden(path, "only a disk has a device name")
    else:
        errors.forbidden(path, "differs from the device name that the disk has already")


def _mount_path(mount_path: str, seen: set[str], path: str, errors: FieldErrors) -> None:
    if not mount_path.startswith("/"):
        errors.invalid(path, mount_path, "must be an absolute path")
    no_backsteps(mount_path, path, errors)
    if mount_path in seen:
        errors.duplicate(path, mount_path)
    seen.add(mount_path)


def check_boot_disk(machine: JsonObject, volumes: Volumes, path: str, errors: FieldErrors) -> None:
    """Check that the first attachment is bootable: a virtual machine boots from it."""
    if not objects(machine, "volumeAttachments"):
        errors.required(f"{path}.volumeAttachments")
    elif not _image_of_first(machine, volumes):
        errors.required(f"{path}.volumeAttachments[0].name", "first volume attachment must be a bootable volume")


def boot_image(spec: JsonObject) -> str:
    """Return the boot image of a template's virtual machine, as written, or ""."""
    machine = mapping(spec, "runtime", "virtualMachine")
    return _image_of_first(machine, volumes_by_name(spec)).get("name", "")


def _image_of_first(machine: JsonObject, volumes: Volumes) -> JsonObject:
    attachments = objects(machine, "volumeAttachments")
    boot = volumes.get(attachments[0].get("name", "")) if attachments else None
    return mapping(boot, "disk", "template", "spec", "populator", "image")
