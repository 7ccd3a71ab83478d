"""The images an instance is created from, their availability, and the status of a MachineImage.

All data about an instance's images is written into its Pod at creation. While one of them has no source, the instance
has no Pod; it continues by itself once the source is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tarmac.api.compute.instance import InstanceTemplateSpec
from tarmac.api.compute.machineimage import (
    LocalMachineImage,
    MachineImage,
    MachineImageSpec,
    MachineImageStatus,
    image_object_name,
    is_local,
)
from tarmac.api.declare import Time
from tarmac.base.clock import rfc3339
from tarmac.decide import reasons
from tarmac.decide.rollup.conditions import Finding, merge
from tarmac.decide.verdict import Refusal, Verdict

RULE = "image"
_NO_SOURCE = "MachineImage {} has no source yet; set its spec.source and spec.checksum."

Images = Mapping[str, MachineImageSpec]
"""Specifications of images, by their names as written in manifests."""

Find = Callable[[str], MachineImage | None]
FindLocal = Callable[[str], LocalMachineImage | None]

NO_IMAGES: Images = {}


def images_named_by(spec: InstanceTemplateSpec) -> list[str]:
    """Return the images that disks are created from, as written, without duplicates, in the order of the volumes."""
    populators = [volume.disk.template.spec.populator for volume in spec.volumes if volume.disk is not None]
    return list(dict.fromkeys(each.image.name for each in populators if each is not None and each.image is not None))


def images_of(
    spec: InstanceTemplateSpec, find: Find, find_local: FindLocal = lambda _name: None, *, simulated: bool = False
) -> Verdict[Images]:
    """Return the images of an instance.

    `find` returns a MachineImage by its object's name, `find_local` one of the instance's namespace. A refusal is about
    the object that `where` names. Disks of a sandbox need only the size of their image, and so do `simulated` nodes:
    they fetch nothing, so that an image without a source boots there.
    """
    needs_source = spec.runtime.virtual_machine is not None and not simulated
    found: dict[str, MachineImageSpec] = {}
    for written in images_named_by(spec):
        name = image_object_name(written)
        if is_local(written):
            local = find_local(name)
            refusal = _local_refusal(spec, written, local)
            if local is None or refusal is not None:
                return Verdict(None, (refusal,) if refusal else ())
            found[written] = local.spec.for_nodes(local.metadata.namespace)
            continue
        image = find(name)
        if image is None:
            change = f"Create MachineImage {name}, or name another image."
            return _unavailable(f"MachineImage {name} does not exist.", name, change)
        if image.spec.source is None and needs_source:
            return _unavailable(
                _NO_SOURCE.format(name), name, f"Set spec.source and spec.checksum of MachineImage {name}."
            )
        found[written] = image.spec
    return Verdict(found)


def _local_refusal(spec: InstanceTemplateSpec, written: str, image: LocalMachineImage | None) -> Refusal | None:
    """Return the reason why a namespace's own image cannot be used.

    Its size is checked here, since the image may be newer than the Workload.
    """
    name = image_object_name(written)
    if image is None:
        message = f"LocalMachineImage {name} does not exist in the namespace."
        change = f"Create LocalMachineImage {name}, or name another image."
    elif spec.runtime.virtual_machine is None:
        message = f"LocalMachineImage {name} fills disks of virtual machines only."
        change = "Use an image of the catalogue, or runtime.virtualMachine."
    elif small := _too_small(spec, written, image):
        message = f"LocalMachineImage {name} has {image.spec.size}, and the disk {small} is smaller."
        change = f"Ask for at least {image.spec.size} for the disk {small}."
    else:
        return None
    return Refusal(reasons.IMAGE_UNAVAILABLE, message, written, RULE, change)


def _too_small(spec: InstanceTemplateSpec, written: str, image: LocalMachineImage) -> str:
    """Return the name of a disk that is too small for the image."""
    for volume in spec.volumes:
        disk = volume.disk.template.spec if volume.disk is not None else None
        if disk is None or disk.populator is None or disk.populator.image is None or disk.resources is None:
            continue
        stated = disk.resources.requests.get("storage")
        if disk.populator.image.name == written and stated is not None and stated < image.spec.size:
            return volume.name
    return ""


def _unavailable(message: str, name: str, change: str) -> Verdict[Images]:
    return Verdict(None, (Refusal(reasons.IMAGE_UNAVAILABLE, message, name, RULE, change),))


def image_status(image: MachineImage, now: float) -> MachineImageStatus:
    """Return the whole status; equal to the old one when nothing changed."""
    old, generation = image.status or MachineImageStatus(), image.metadata.generation
    lifecycle = image.spec.lifecycle
    ageing = lifecycle is not None and lifecycle.phase != "Active"
    since = old.deprecated_at or Time(rfc3339(now)) if ageing else None
    return MachineImageStatus(generation, merge(old.conditions, (_ready(image),), generation, now), since)


def _ready(image: MachineImage) -> Finding:
    name, lifecycle = image.metadata.name, image.spec.lifecycle
    phase = lifecycle.phase if lifecycle is not None else "Active"
    instead = f"Use {lifecycle.replacement_machine_image}." if lifecycle is not None else ""
    if phase == "Disabled":
        message = f"MachineImage {name} is disabled: running instances continue, and new ones may not use it. {instead}"
        return Finding("Ready", "False", reasons.IMAGE_DISABLED, message)
    if image.spec.source is None:
        return Finding("Ready", "False", reasons.IMAGE_UNAVAILABLE, _NO_SOURCE.format(name))
    if phase == "Deprecated":
        return Finding("Ready", "True", reasons.IMAGE_DEPRECATED, f"MachineImage {name} is deprecated. {instead}")
    return Finding("Ready", "True", reasons.ACTIVE, "The image may be used.")
