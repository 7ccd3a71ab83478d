"""Checks the images of a virtual machine that a node reports after a restore: the catalogue must have them.

A node fetches images with its own rights, and the annotation that names them is kept although only a controller may
write it. A hostile node could otherwise have a machine adopted whose image nobody with that right chose.
"""

from __future__ import annotations

import msgspec

from tarmac.api.compute.machineimage import (
    LocalMachineImage,
    MachineImage,
    MachineImageSpec,
    described_image,
    image_object_name,
    image_owner,
)
from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.declare import decode, encode
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.reader import Reader

_IMAGES, _LOCAL = "compute.datumapis.com/machineimages", "compute.datumapis.com/localmachineimages"
_FIELD = f"metadata.annotations[{ANNOTATION_MACHINE_IMAGES}]"
_DECIDING = ("source", "checksum")


def check_images(reader: Reader, pod: JsonObject, errors: FieldErrors) -> None:
    """Add an error for each image that is not the one of its name in the store."""
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_MACHINE_IMAGES)
    if text is None:
        return
    try:
        images = msgspec.json.decode(text, type=dict[str, JsonObject])
    except (msgspec.DecodeError, UnicodeError) as error:
        errors.invalid(_FIELD, text[:200], f"cannot be read: {error}")
        return
    for name, said in images.items():
        known = _known(reader, name, pod["metadata"]["namespace"])
        stored = encode(known) if known is not None else {}
        if known is None or any(said.get(field) != stored.get(field) for field in _DECIDING):
            why = f"{described_image(name)} has not this source and checksum"
            errors.invalid(_FIELD, name[:200], f"{why}; end this one with `tarmac restored remove`")


def _known(reader: Reader, name: str, namespace: str) -> MachineImageSpec | None:
    owner = image_owner(name)
    if not owner:
        found = reader.get(_IMAGES, image_object_name(name))
        return decode(MachineImage, found).spec if found is not None else None
    found = reader.get(_LOCAL, f"{owner}/{name.rpartition(':')[2]}") if owner == namespace else None
    return decode(LocalMachineImage, found).spec.for_nodes(owner) if found is not None else None
