"""Replacement of a machine's boot disk when its image changes.

The disks of an instance survive its replacement. A boot disk holds an operating system, though, and a new image would
have no effect if the old disk were kept. So a replacement gets a new boot disk when its image differs, by name or by
checksum, from the one that the disk was created from. A retained disk is always kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.compute.instance import InstanceTemplateSpec
from tarmac.api.compute.names import ANNOTATION_POPULATE_FROM, ANNOTATION_POPULATED_CHECKSUM
from tarmac.api.schema import JsonObject

REPLACED = "BootDiskReplaced"
KEPT = "BootDiskKept"


def boot_volume(spec: InstanceTemplateSpec) -> str:
    """Return the volume that a machine boots from; empty for a sandbox."""
    machine = spec.runtime.virtual_machine
    return machine.volume_attachments[0].name if machine is not None and machine.volume_attachments else ""


def is_of_another_image(made_from: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return True if a claim with the first annotations holds a different image than one with the second would.

    A claim without a checksum was created by an earlier version: then only the name counts.
    """
    if made_from.get(ANNOTATION_POPULATE_FROM) != wanted.get(ANNOTATION_POPULATE_FROM):
        return True
    before = made_from.get(ANNOTATION_POPULATED_CHECKSUM)
    return before is not None and before != wanted.get(ANNOTATION_POPULATED_CHECKSUM)


def is_retained(claim: JsonObject) -> bool:
    """Return True if a claim in its initial form has no owner."""
    return not claim["metadata"]["ownerReferences"]


def described(notes: Mapping[str, str]) -> str:
    """Return the image's name and checksum for display."""
    name, checksum = notes.get(ANNOTATION_POPULATE_FROM, "nothing"), notes.get(ANNOTATION_POPULATED_CHECKSUM, "")
    return f"{name} ({checksum[:19]})" if checksum else name
