"""Fields of a pod as text, as the downward API gives them to files (and, with a few more, to variables)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.quantity import Quantity
from tarmac.volumes.content.files import ContentUnsupported, Payload, ProjectedFile

_SUBSCRIPT = re.compile(r"(.+?)\['(.*)'\]", re.DOTALL)
_METADATA = ("metadata.name", "metadata.namespace", "metadata.uid")
_MAPS = ("metadata.labels", "metadata.annotations")


def downward_files(
    items: list[JsonObject], pod: JsonObject, allocatable: Mapping[str, str], default_mode: int
) -> Payload:
    """Return the files of a `downwardAPI` source. Raises ContentUnsupported."""
    found: Payload = {}
    for item in items:
        mode = item.get("mode")
        if "fieldRef" in item:
            text = pod_field(pod, item["fieldRef"]["fieldPath"])
        elif "resourceFieldRef" in item:
            text = container_resource(pod, item["resourceFieldRef"], allocatable)
        else:
            text = ""
        found[item["path"]] = ProjectedFile(text.encode(), default_mode if mode is None else mode)
    return found


def pod_field(pod: JsonObject, path: str) -> str:
    """Return a field of the metadata, or one entry of its labels or annotations."""
    metadata = pod["metadata"]
    if subscripted := _SUBSCRIPT.fullmatch(path):
        field, key = subscripted.groups()
        if field not in _MAPS:
            raise ContentUnsupported(f'fieldPath "{path}" does not support subscript')
        if wrong := names.qualified_name(key.lower() if field == "metadata.annotations" else key):
            raise ContentUnsupported(f"invalid key subscript in {path}: {';'.join(wrong)}")
        return (metadata.get(field.removeprefix("metadata.")) or {}).get(key, "")
    if path in _MAPS:
        entries: Mapping[str, str] = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f"{key}={_quoted(entries[key])}" for key in sorted(entries))
    if path in _METADATA:
        return metadata.get(path.removeprefix("metadata."), "")
    raise ContentUnsupported(f"unsupported fieldPath: {path}")


def container_resource(pod: JsonObject, reference: JsonObject, allocatable: Mapping[str, str]) -> str:
    """Return a request or limit of a container in units of the divisor, rounded up; a missing limit is the node's."""
    container = _container(pod, reference.get("containerName", ""))
    sort, _, resource = reference["resource"].partition(".")
    stated: Mapping[str, Any] = (container.get("resources") or {}).get(sort) or {}
    known = resource in ("cpu", "memory", "ephemeral-storage") or resource.startswith("hugepages-")
    if sort not in ("limits", "requests") or not known:
        raise ContentUnsupported(f"unsupported container resource : {reference['resource']}")
    value = Quantity.parse(stated[resource]) if resource in stated else Quantity.of(0)
    if not value and sort == "limits":
        value = Quantity.parse(allocatable.get(resource, "0"))
    divisor = Quantity.parse(reference.get("divisor") or "1")
    if not divisor:
        divisor = Quantity.of(1)
    if resource == "cpu":
        return str(-(-value.milli() // divisor.milli()))
    return str(-(-value.value() // divisor.value()))


def _container(pod: JsonObject, name: str) -> JsonObject:
    spec = pod["spec"]
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if container["name"] == name:
            return container
    raise ContentUnsupported(f"container {name} not found")


_ESCAPES = {character: f"\\{letter}" for character, letter in zip('\\"\a\b\f\n\r\t\v', '\\"abfnrtv', strict=True)}


def _quoted(text: str) -> str:
    """Quote a string as Go does, which readers of these files expect."""
    return '"' + "".join(_ESCAPES.get(character) or _visible(character) for character in text) + '"'


def _visible(character: str) -> str:
    code = ord(character)
    if character == " " or (character.isprintable() and code != 0x7F):
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
