"""Which images an instance is made from, whether they can be had, and a MachineImage as it is.

An instance is told everything about its images when its Pod is made; while one of them has no source it has no Pod, and
goes on by itself once it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tarmac.api.compute.instance import InstanceTemplateSpec
from tarmac.api.compute.machineimage import MachineImage, MachineImageSpec, MachineImageStatus, image_object_name
from tarmac.api.declare import Time
from tarmac.base.clock import rfc3339
from tarmac.decide import reasons
from tarmac.decide.rollup.conditions import Finding, merge
from tarmac.decide.verdict import Refusal, Verdict

RULE = "image"
_NO_SOURCE = "MachineImage {} has no source yet; set its spec.source and spec.checksum."

Images = Mapping[str, MachineImageSpec]
"""What is known of images, by their names as manifests write them."""

NO_IMAGES: Images = {}


def images_named_by(spec: InstanceTemplateSpec) -> list[str]:
    """The images that disks are made from, as written, each once, in the order of the volumes."""
    populators = [volume.disk.template.spec.populator for volume in spec.volumes if volume.disk is not None]
    return list(dict.fromkeys(each.image.name for each in populators if each is not None and each.image is not None))


def images_of(spec: InstanceTemplateSpec, find: Callable[[str], MachineImage | None]) -> Verdict[Images]:
    """The images of an instance. `find` gives a MachineImage by its object's name.

    A refusal is about the object that `where` names. Disks of a sandbox need to know of their image only its size.
    """
    found: dict[str, MachineImageSpec] = {}
    for written in images_named_by(spec):
        name = image_object_name(written)
        image = find(name)
        if image is None:
            change = f"Create MachineImage {name}, or name another image."
            return _unavailable(f"MachineImage {name} does not exist.", name, change)
        if image.spec.source is None and spec.runtime.virtual_machine is not None:
            return _unavailable(
                _NO_SOURCE.format(name), name, f"Set spec.source and spec.checksum of MachineImage {name}."
            )
        found[written] = image.spec
    return Verdict(found)


def _unavailable(message: str, name: str, change: str) -> Verdict[Images]:
    return Verdict(None, (Refusal(reasons.IMAGE_UNAVAILABLE, message, name, RULE, change),))


def image_status(image: MachineImage, now: float) -> MachineImageStatus:
    """The whole status; equal to the old one when nothing changed."""
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
        message = f"MachineImage {name} is disabled: what runs goes on, and nothing new may name it. {instead}"
        return Finding("Ready", "False", reasons.IMAGE_DISABLED, message)
    if image.spec.source is None:
        return Finding("Ready", "False", reasons.IMAGE_UNAVAILABLE, _NO_SOURCE.format(name))
    if phase == "Deprecated":
        return Finding("Ready", "True", reasons.IMAGE_DEPRECATED, f"MachineImage {name} is deprecated. {instead}")
    return Finding("Ready", "True", reasons.ACTIVE, "The image may be used.")
