"""Files from the data of a ConfigMap or Secret, as selected by `items`, `defaultMode` and `optional`."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tarmac.api.schema import JsonObject


class ContentMissing(Exception):
    """An object or key is missing and may appear later; the pod's event has the message."""


class ContentUnsupported(Exception):
    """A source that this node does not support."""


@dataclass(frozen=True, slots=True)
class ProjectedFile:
    """One file to write."""

    data: bytes
    mode: int
    user: int | None = None  # owner, if not root

    def __repr__(self) -> str:
        """Omit the content, which may be a secret."""
        return f"File({len(self.data)} bytes, {self.mode:o})"


Payload = dict[str, ProjectedFile]
"""Files by their path in the volume."""


def config_map_files(obj: JsonObject | None, source: JsonObject, default_mode: int) -> Payload:
    """Return the files of a `configMap` source. Raises ContentMissing."""
    optional = bool(source.get("optional"))
    if obj is None:
        obj = _nothing(f'configmap "{source.get("name", "")}" not found', optional)
    data = {key: text.encode() for key, text in (obj.get("data") or {}).items()}
    for key, text in (obj.get("binaryData") or {}).items():
        data.setdefault(key, base64.b64decode(text))
    return _chosen(data, source, default_mode, "configmap references non-existent config key: ")


def secret_files(obj: JsonObject | None, source: JsonObject, name: str, default_mode: int) -> Payload:
    """Return the files of a `secret` source, whose name field differs in volumes and projections.

    Raises ContentMissing.
    """
    optional = bool(source.get("optional"))
    if obj is None:
        obj = _nothing(f'secret "{name}" not found', optional)
    data = {key: base64.b64decode(text) for key, text in (obj.get("data") or {}).items()}
    return _chosen(data, source, default_mode, "references non-existent secret key: ")


def _nothing(message: str, optional: bool) -> JsonObject:
    if not optional:
        raise ContentMissing(message)
    return {}


def _chosen(data: Mapping[str, bytes], source: JsonObject, default_mode: int, complaint: str) -> Payload:
    items: Sequence[dict[str, Any]] = source.get("items") or ()
    if not items:
        return {key: ProjectedFile(content, default_mode) for key, content in data.items()}
    found: Payload = {}
    for item in items:
        key = item["key"]
        if key in data:
            mode = item.get("mode")
            found[item["path"]] = ProjectedFile(data[key], default_mode if mode is None else mode)
        elif not source.get("optional"):
            raise ContentMissing(complaint + key)
    return found
