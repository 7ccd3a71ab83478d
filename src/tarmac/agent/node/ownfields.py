"""What the node says beyond Kubernetes' own fields, on servers that keep such fields and on servers that drop them.

Nobody asks a server what it is. The fields are sent; where they do not come back they are sent as one annotation from
then on, with the same patch of the status, which a node may write as well. The annotation is taken away where the
fields are kept.
"""

from __future__ import annotations

import msgspec

from tarmac.api.kubernetes.core.nodeclasses import FIELDS, RESOURCES_ANNOTATION
from tarmac.api.kubernetes.core.nodedevices import ANNOTATION_DEVICES, NodeDevices
from tarmac.api.rotations import TRUSTS
from tarmac.api.schema import JsonObject


def keeps_fields(sent: JsonObject, node: JsonObject) -> bool | None:
    """Whether the server's Node has all of the fields that a status has; None when the status has none of them."""
    status, named = node.get("status") or {}, [name for name in FIELDS if sent.get(name)]
    return all(status.get(name) for name in named) if named else None


def without_own_fields(status: JsonObject) -> JsonObject:
    """The status as Kubernetes knows it."""
    return {name: value for name, value in status.items() if name not in FIELDS}


def annotation_changes(
    status: JsonObject, node: JsonObject, keeps: bool | None, devices: NodeDevices, trusts: str = ""
) -> JsonObject:
    """A patch of the Node's metadata that makes its annotations say what there is to say; empty when they do.

    What is said of devices, and of authorities that are trusted, has no field anywhere. The other annotation says what
    the fields would.
    """
    known: JsonObject = node["metadata"].get("annotations") or {}
    wanted = {ANNOTATION_DEVICES: devices.text(), **_instead_of_fields(status, keeps)}
    if trusts:
        wanted[TRUSTS] = trusts
    changed = {name: text for name, text in wanted.items() if known.get(name) != text}
    return {"annotations": changed} if changed else {}


def _instead_of_fields(status: JsonObject, keeps: bool | None) -> JsonObject:
    """As long as nobody knows what the server keeps, the annotation stays: on a server that drops the fields it is all
    that schedulers have to go by, and an agent that starts must not take it away for a moment.
    """
    if keeps is None:
        return {}
    said = {name: status[name] for name in FIELDS if status.get(name)} if not keeps else {}
    return {RESOURCES_ANNOTATION: msgspec.json.encode(said).decode() if said else None}
