"""Where the files of the built-in machine images are: said in the catalogue at every start, when they are there.

Beside each file lies what is to be said of it. A source that an administrator wrote is left alone; one of ours is
renewed, since a later version of the file has another sum.
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
    """Say of each image whose file is here where it is. One that cannot be told of is as if it had none."""
    for path in sorted((folder or parts_folder() / "machine-images").glob("*.json")):
        try:
            await _tell(client, f"tarmac-{path.stem}", _decode(path.read_bytes()))
        except (ApiError, OSError, msgspec.MsgspecError) as error:
            _log.warning("a machine image has no source", image=path.stem, why=str(error))


async def _tell(client: Client, name: str, spec: JsonObject) -> None:
    images = client.resource(_IMAGES)
    try:
        found = (await images.get(name))["spec"]
    except NotFound:
        return  # an administrator removed it
    is_ours = found.get("source") in (None, spec["source"])
    if is_ours and any(found.get(field) != value for field, value in spec.items()):
        await images.patch(name, {"spec": spec}, type="merge", manager=_FIELD_MANAGER)
