"""Shorthands of a template, rewritten into the stored form.

This runs on what a client sent, before types are checked, so nothing is taken for granted about the shape. A
shorthand that contradicts the full form is left where it is, and validation refuses it there; unless the full form is
what is stored already, for then the shorthand is what its author changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tarmac.api.schema import Json, JsonObject


def normalise_template(template: Json) -> None:
    """`template.labels`, `template.annotations`, and everything in `template.spec`."""
    if not isinstance(template, dict):
        return
    for field in ("labels", "annotations"):
        _move_metadata(template, field)
    normalise_instance(template.get("spec"))


def prefer_changed(template: JsonObject, stored: JsonObject) -> None:
    """A patch of `kubectl apply` carries the shorthand alone, and is laid over the stored object with the full form."""
    metadata, before = template.get("metadata"), stored.get("metadata") or {}
    for field in ("labels", "annotations"):
        short = template.get(field)
        if short is not None and metadata and metadata.get(field) == before.get(field):
            metadata[field] = template.pop(field)


def normalise_instance(spec: Json) -> None:
    """`network: name`, interface names, and device names on attachments."""
    if not isinstance(spec, dict):
        return
    interfaces = [item for item in _items(spec, "networkInterfaces") if isinstance(item, dict)]
    for interface in interfaces:
        if isinstance(interface.get("network"), str):
            interface["network"] = {"name": interface["network"]}
    _name_interfaces(interfaces)
    volumes = {_text(item, "name"): item for item in _items(spec, "volumes")}
    for attachment in _attachments(spec.get("runtime")):
        _move_device_name(attachment, volumes.get(_text(attachment, "name")))


def upper_cities(owner: Json, field: str) -> None:
    """City codes in capital letters."""
    if not isinstance(owner, dict):
        return
    value = owner.get(field)
    if isinstance(value, str):
        owner[field] = value.upper()
    elif isinstance(value, list):
        owner[field] = [item.upper() if isinstance(item, str) else item for item in value]


def _move_metadata(template: JsonObject, field: str) -> None:
    short = template.get(field)
    metadata = template.get("metadata")
    if not isinstance(short, dict) or not (metadata is None or isinstance(metadata, dict)):
        return
    full = (metadata or {}).get(field)
    if not full or full == short:
        template["metadata"] = {**(metadata or {}), field: short}
        del template[field]


def _name_interfaces(interfaces: list[JsonObject]) -> None:
    """Each gets the first free number from its index on; all between an index and the number found are taken."""
    taken = {_text(interface, "name") for interface in interfaces}
    number = 0
    for index, interface in enumerate(interfaces):
        if interface.get("name"):
            continue
        number = max(number, index)
        while f"eth{number}" in taken:
            number += 1
        interface["name"] = f"eth{number}"
        taken.add(interface["name"])


def _move_device_name(attachment: JsonObject, volume: Any) -> None:
    name = attachment.get("deviceName")
    disk = volume.get("disk") if isinstance(volume, dict) else None
    if name is None or not isinstance(disk, dict):
        return
    if not disk.get("deviceName") or disk["deviceName"] == name:
        disk["deviceName"] = name
        del attachment["deviceName"]


def _attachments(runtime: Json) -> Iterator[JsonObject]:
    if not isinstance(runtime, dict):
        return
    sandbox = runtime.get("sandbox")
    users = [*_items(sandbox, "containers"), *_items(sandbox, "initContainers"), runtime.get("virtualMachine")]
    for user in users:
        for attachment in _items(user, "volumeAttachments"):
            if isinstance(attachment, dict):
                yield attachment


def _text(owner: Json, field: str) -> str:
    value = owner.get(field) if isinstance(owner, dict) else None
    return value if isinstance(value, str) else ""


def _items(owner: Json, field: str) -> list[Any]:
    value = owner.get(field) if isinstance(owner, dict) else None
    return value if isinstance(value, list) else []
