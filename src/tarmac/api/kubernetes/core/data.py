"""ConfigMap and Secret: maps of bounded size, optionally immutable."""

from __future__ import annotations

import base64
import binascii
import re

import msgspec

from tarmac.api import checks
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_MAX_SIZE = 1 << 20
_FROZEN = "field is immutable when `immutable` is set"
_REDACTED = "<secret contents redacted>"
_ACCOUNT = "kubernetes.io/service-account.name"
# required keys by type of Secret
_REQUIRED_KEYS = {
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
_JSON_KEYS = (".dockercfg", ".dockerconfigjson")
# keys that need no further check; those that start with a dot have more rules
_is_usual = re.compile(r"[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,252}").fullmatch
_decode_object = msgspec.json.Decoder(dict).decode


class ConfigMapStrategy(KubernetesStrategy):
    """ConfigMap."""

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        size = _validate_keys(data, "data", errors)
        if binary:
            size += _validate_keys(binary, "binaryData", errors, encoded=True)
            for key in data.keys() & binary.keys():
                errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        if size > _MAX_SIZE:
            errors.too_long("[]", "", _MAX_SIZE)  # Go's form for the path of the whole object

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        _validate_frozen(new, old, ("data", "binaryData"), errors)
        self.validate(new, errors)


class SecretStrategy(KubernetesStrategy):
    """Secret. `stringData` is write-only: it is encoded into `data` before any other step."""

    def default(self, obj: JsonObject) -> None:
        plain = obj.pop("stringData", None)
        if plain:  # into a new `data`: the old object of an update may share this one
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}
        if not obj.get("type"):
            obj["type"] = "Opaque"

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        # Opaque is only a default: an update without a type keeps the existing type
        if new["type"] == "Opaque" and "type" in old:
            new["type"] = old["type"]

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        data = obj.get("data") or {}
        if _validate_keys(data, "data", errors, encoded=True) > _MAX_SIZE:
            errors.too_long("data", "", _MAX_SIZE)
        kind = obj.get("type")
        if kind != "Opaque":
            _validate_type(kind, data, obj, errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        checks.immutable(new.get("type"), old.get("type"), "type", errors)
        _validate_frozen(new, old, ("data",), errors)
        self.validate(new, errors)

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        return {"type": obj.get("type", "")}


def _validate_keys(data: dict[str, str], path: str, errors: FieldErrors, *, encoded: bool = False) -> int:
    """Check every key; return the size of the values, in bytes."""
    size = 0
    for key, value in data.items():
        if not _is_usual(key):
            checks.report(names.config_map_key(key), key, f"{path}[{key}]", errors)
        if encoded:
            size += len(value) * 3 // 4 - value.count("=", -2)
        else:
            size += len(value) if value.isascii() else len(value.encode())
    return size


def _validate_type(kind: str | None, data: dict[str, str], obj: JsonObject, errors: FieldErrors) -> None:
    if kind == "kubernetes.io/service-account-token":
        if not checks.annotations_of(obj).get(_ACCOUNT):
            errors.required(f"metadata.annotations[{_ACCOUNT}]")
    elif kind == "kubernetes.io/basic-auth" and "username" not in data and "password" not in data:
        errors.required("data[username]")
        errors.required("data[password]")
    for key in _REQUIRED_KEYS.get(kind or "", ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            errors.required(f"data[{key}]")
        elif key in _JSON_KEYS:
            _validate_json(data[key], f"data[{key}]", errors)


def _validate_json(encoded: str, path: str, errors: FieldErrors) -> None:
    try:
        _decode_object(base64.b64decode(encoded).decode(errors="replace"))  # as Go reads it
    except (msgspec.MsgspecError, binascii.Error) as error:
        errors.invalid(path, _REDACTED, str(error))


def _validate_frozen(new: JsonObject, old: JsonObject, fields: tuple[str, ...], errors: FieldErrors) -> None:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        errors.forbidden("immutable", _FROZEN)
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            errors.forbidden(field, _FROZEN)
