"""Disks: their initial content, and their size.

A disk has between 10Gi and 100Gi; one made from an image is at least, and by default, as large as the image.
"""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.checks import mapping
from tarmac.api.compute.lookup import find_image
from tarmac.api.compute.machineimage import LOCAL, image_object_name, is_local
from tarmac.api.compute.validation.amounts import amount
from tarmac.api.compute.validation.context import Context, image_and_size
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity

GIB = 1 << 30
DISK_TYPES = ("pd-standard",)
FILESYSTEMS = ("ext4",)
MIN_DISK, MAX_DISK = Quantity.parse("10Gi"), Quantity.parse("100Gi")
SMALLEST_IMAGE = Quantity.parse("1Gi")


def check_disk(disk: JsonObject, path: str, context: Context) -> None:
    """Check a disk and its template."""
    errors = context.errors
    template = disk.get("template")
    if template is None or template.get("spec") is None:
        errors.required(f"{path}.template" if template is None else f"{path}.template.spec")
        return
    checks.labels(mapping(template, "metadata").get("labels") or {}, f"{path}.template.metadata.labels", errors)
    spec, where = template["spec"], f"{path}.template.spec"
    checks.one_of(spec.get("type", DISK_TYPES[0]), DISK_TYPES, f"{where}.type", errors)
    needed = _populator(spec, f"{where}.populator", context)
    _size(spec, needed, where, errors)


def _populator(spec: JsonObject, path: str, context: Context) -> Quantity | None:
    """Check the initial content of the disk; return the space that it needs."""
    errors, populator = context.errors, mapping(spec, "populator")
    image, filesystem = populator.get("image"), populator.get("filesystem")
    if image is not None:
        if filesystem is not None:
            errors.forbidden(f"{path}.filesystem", "may not specify more than 1 populator")
        return _image(image.get("name", ""), image_and_size(spec), f"{path}.image.name", context)
    if filesystem is not None:
        checks.one_of(filesystem.get("type", ""), FILESYSTEMS, f"{path}.filesystem.type", errors)
    return None


def _image(name: str, stated: tuple[str, str], path: str, context: Context) -> Quantity:
    """Check the image; return the space that it needs. A stored image is not rejected, nor a stored size."""
    if not name:
        context.errors.required(path)
        return SMALLEST_IMAGE
    if is_local(name):
        # It may be created after the Workload and change later: instances wait for it, and its size is checked then.
        for complaint in names.dns1123_subdomain(image_object_name(name)):
            context.errors.invalid(path, name, f"after {LOCAL}: {complaint}")
        return SMALLEST_IMAGE
    facts, stored = find_image(context.lookup, name), context.stored.disk_images
    known_here = any(name == image for image, _ in stored)
    if facts is None:
        if not known_here:
            context.errors.not_supported(path, name, sorted(context.lookup.machine_images()))
        return SMALLEST_IMAGE
    if facts.phase == "Disabled" and not known_here:
        context.errors.invalid(path, name, f"is disabled; use {facts.replacement or 'another image'}")
    return SMALLEST_IMAGE if stated in stored else facts.size


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
    elif needed is not None and size < needed:
        errors.invalid(path, written, f"must be at least {needed}, the size of the image")
    elif size > MAX_DISK or (needed is None and size < MIN_DISK):
        errors.invalid(path, written, f"must be between {needed or MIN_DISK} and {MAX_DISK}, inclusive")
    elif size.value() % GIB:
        errors.invalid(path, written, "must be a multiple of 1Gi")
