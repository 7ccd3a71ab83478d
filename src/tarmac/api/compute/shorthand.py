"""Shorthands of a template, rewritten into the stored form.

This runs on the client's object before types are checked, so it assumes nothing about the shape. A shorthand that
contradicts the full form stays in place, and validation rejects it there.

Labels and annotations that were written directly in the template are copied into its metadata, and also stay in place:
`kubectl apply` compares its file with the live object, and would otherwise find the short form missing and send a
change every time. From then on both forms are kept equal: when a write changes one of them, the other follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tarmac.api.schema import Json, JsonObject
from tarmac.api.shared import LAST_APPLIED

_SHORT: Final = ("labels", "annotations")


def normalise_template(template: Json) -> None:
    """Normalise `template.labels`, `template.annotations`, and `template.spec`."""
    if not isinstance(template, dict):
        return
    for field in _SHORT:
        _copy_metadata(template, field)
    normalise_instance(template.get("spec"))


def without_short_form(workload: JsonObject) -> None:
    """Remove the short form of labels and annotations, for readers. Call after `normalise_template`."""
    template = _template(workload)
    metadata = template.get("metadata")
    for field in _SHORT:
        if isinstance(metadata, dict) and field in template and template[field] == metadata.get(field):
            del template[field]


def follow_changed(new: JsonObject, old: JsonObject) -> None:
    """Make the short and the full form of a changed Workload equal again: the unchanged form follows the changed one.

    Where both were changed and disagree, both stay, and validation rejects them.
    """
    template, before = _template(new), _template(old)
    for field in _SHORT:
        _follow(new, old, template, before, field)


def _follow(new: JsonObject, old: JsonObject, template: JsonObject, before: JsonObject, field: str) -> None:
    metadata, metadata_before = template.get("metadata") or {}, before.get("metadata") or {}
    short, full = template.get(field), metadata.get(field)
    if short == full:
        return  # and nothing is written: after a patch, unchanged parts are shared with the old object
    if full != metadata_before.get(field):
        if short is not None and short == before.get(field):
            template[field] = dict(full or {})
    elif short is not None:
        template["metadata"] = {**metadata, field: dict(short)}
    elif before.get(field) is not None and _took_away(new, old, field):
        template["metadata"] = {name: value for name, value in metadata.items() if name != field}


def _took_away(new: JsonObject, old: JsonObject, field: str) -> bool:
    """Return True if a file that had the short form was applied again and has neither form now.

    The patch of `kubectl apply` is the same as for a file that has changed over to the full form, with the same
    content: only the annotation of kubectl distinguishes them.
    """
    noted = _annotation(new)
    if not noted or noted == _annotation(old):
        return False
    try:
        file = msgspec.json.decode(noted)
    except msgspec.DecodeError:
        return False
    metadata = _template(file).get("metadata") if isinstance(file, dict) else None
    return not (isinstance(metadata, dict) and field in metadata)


def _annotation(obj: JsonObject) -> str:
    return (obj["metadata"].get("annotations") or {}).get(LAST_APPLIED) or ""


def _template(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    return template if isinstance(template, dict) else {}


def normalise_instance(spec: Json) -> None:
    """Normalise `network: name`, interface names, and device names on attachments."""
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
    """Convert city codes to capital letters."""
    if not isinstance(owner, dict):
        return
    value = owner.get(field)
    if isinstance(value, str):
        owner[field] = value.upper()
    elif isinstance(value, list):
        owner[field] = [item.upper() if isinstance(item, str) else item for item in value]


def _copy_metadata(template: JsonObject, field: str) -> None:
    short = template.get(field)
    metadata = template.get("metadata")
    if not isinstance(short, dict) or not (metadata is None or isinstance(metadata, dict)):
        return
    if not (metadata or {}).get(field):
        template["metadata"] = {**(metadata or {}), field: dict(short)}


def _name_interfaces(interfaces: list[JsonObject]) -> None:
    """Name unnamed interfaces: each gets the first free number from its index on.

    All numbers between its index and the number found are taken, so the search never starts over.
    """
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
