"""Writes the location of the built-in machine image files to the catalogue at every start, if they exist.

The spec of each image is in a file next to it. A source set by an administrator is left alone; one set by Tarmac is
updated, since a newer file has a different checksum.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tarmac.api.compute.machineimage import MachineImage
from tarmac.api.compute.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic
from tarmac.runtimes.parts import parts_folder

_FIELD_MANAGER = "tarmac-up"
_IMAGES = dynamic(API_VERSION, "machineimages", MachineImage.__name__, namespaced=False)
_decode = msgspec.json.Decoder(dict).decode
_log = log("cities")


async def tell_sources(client: Client, folder: Path | None = None) -> None:
    """Set the source of each image with a local file. A failure leaves the image without a source."""
    for path in sorted((folder or parts_folder() / "machine-images").glob("*.json")):
        try:
            await _tell(client, f"tarmac-{path.stem}", _decode(path.read_bytes()))
        except (ApiError, OSError, msgspec.MsgspecError) as error:
            _log.warning("machine image source cannot be set", image=path.stem, why=str(error))


async def _tell(client: Client, name: str, spec: JsonObject) -> None:
    images = client.resource(_IMAGES)
    try:
        found = (await images.get(name))["spec"]
    except NotFound:
        return  # an administrator deleted it
    is_ours = found.get("source") in (None, spec["source"])
    if is_ours and any(found.get(field) != value for field, value in spec.items()):
        await images.patch(name, {"spec": spec}, type="merge", manager=_FIELD_MANAGER)
