"""The boot disk of a machine belongs to its image: with another image comes another disk.

The disks of an instance live on when it is replaced. A boot disk holds an operating system, though, and a new image
would have no effect if the old disk were kept. So a replacement gets a new boot disk when its image is another, by name
or by sum, than the one that the disk was made from. A disk to be retained is kept whatever the image.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.compute.instance import InstanceTemplateSpec
from tarmac.api.compute.names import ANNOTATION_POPULATE_FROM, ANNOTATION_POPULATED_CHECKSUM
from tarmac.api.schema import JsonObject

REPLACED = "BootDiskReplaced"
KEPT = "BootDiskKept"


def boot_volume(spec: InstanceTemplateSpec) -> str:
    """The volume that a machine boots from; empty for a sandbox."""
    machine = spec.runtime.virtual_machine
    return machine.volume_attachments[0].name if machine is not None and machine.volume_attachments else ""


def is_of_another_image(made_from: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a claim with the first annotations holds another image than one with the second would.

    A claim that does not say its sum was made by an earlier version: then only the name counts.
    """
    if made_from.get(ANNOTATION_POPULATE_FROM) != wanted.get(ANNOTATION_POPULATE_FROM):
        return True
    before = made_from.get(ANNOTATION_POPULATED_CHECKSUM)
    return before is not None and before != wanted.get(ANNOTATION_POPULATED_CHECKSUM)


def is_retained(claim: JsonObject) -> bool:
    """Whether a claim, as it would be made, belongs to nobody."""
    return not claim["metadata"]["ownerReferences"]


def described(notes: Mapping[str, str]) -> str:
    """Which image, for people."""
    name, checksum = notes.get(ANNOTATION_POPULATE_FROM, "nothing"), notes.get(ANNOTATION_POPULATED_CHECKSUM, "")
    return f"{name} ({checksum[:19]})" if checksum else name
