"""Tarmac's own fields of the Node status, on servers that keep such fields and on servers that drop them.

The server is not asked for its kind. The fields are sent; if they do not come back they are sent as one annotation from
then on, with the same patch of the status, which a node may write as well. The annotation is removed on servers that
keep the fields.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tarmac.api.kubernetes.core.nodeclasses import FIELDS, RESOURCES_ANNOTATION
from tarmac.api.kubernetes.core.nodedevices import ANNOTATION_DEVICES, NodeDevices
from tarmac.api.schema import JsonObject


def keeps_fields(sent: JsonObject, node: JsonObject) -> bool | None:
    """Return True if the server's Node has all own fields of a status; None if the status has none of them."""
    status, named = node.get("status") or {}, [name for name in FIELDS if sent.get(name)]
    return all(status.get(name) for name in named) if named else None


def without_own_fields(status: JsonObject) -> JsonObject:
    """Return the status with Kubernetes' fields only."""
    return {name: value for name, value in status.items() if name not in FIELDS}


def annotation_changes(
    status: JsonObject, node: JsonObject, keeps: bool | None, devices: NodeDevices, own: Mapping[str, str] | None = None
) -> JsonObject:
    """Return a patch of the Node's metadata with the changed annotations; empty if there are none.

    Devices, trusted authorities and tunnels (`own`, by annotation; an empty one is left unchanged) have no field
    anywhere. The other annotation replaces the own fields.
    """
    known: JsonObject = node["metadata"].get("annotations") or {}
    wanted = {ANNOTATION_DEVICES: devices.text(), **_instead_of_fields(status, keeps)}
    wanted |= {name: text for name, text in (own or {}).items() if text}
    changed = {name: text for name, text in wanted.items() if known.get(name) != text}
    return {"annotations": changed} if changed else {}


def _instead_of_fields(status: JsonObject, keeps: bool | None) -> JsonObject:
    """Return the annotation that replaces the own fields.

    Until it is known if the server keeps them, the annotation stays: on a server that drops the fields it is the only
    source for schedulers, and a starting agent must not remove it for a moment.
    """
    if keeps is None:
        return {}
    said = {name: status[name] for name in FIELDS if status.get(name)} if not keeps else {}
    return {RESOURCES_ANNOTATION: msgspec.json.encode(said).decode() if said else None}
