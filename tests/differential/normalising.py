"""Removes from a response the values that differ between any two servers, and no other.

Uids, resource versions, generated names and cluster addresses become ordinals in the order of their first appearance.
So `<version 2>` in both responses still means the same write, and not the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_SERVER = re.compile(r"\b127\.0\.0\.1:\d+\b")
_VERSION = re.compile(r"(?<=\()\d+(?=\))")  # as conflicts print it
_QUOTED_OBJECT = re.compile(r'Invalid value: "(\{.*\}|map\[.*\])": ', re.DOTALL)  # keys come in any order
_CURRENT = re.compile(r"(?<=current: )\d+")
_ISSUER = re.compile(r"https://kubernetes\.default\.svc(\.cluster\.local)?")  # the operator's choice
_LONGEST_PREFIX = 58
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_AGE = re.compile(r"^\d+s$")
_ADDRESS = re.compile(r"^10\.\d+\.\d+\.\d+$")


class Normaliser:
    """The state of one run on one server."""

    def __init__(self) -> None:
        self._ordinals: dict[str, dict[str, str]] = {}
        self._generated: list[re.Pattern[str]] = []

    def expect_names(self, prefix: str) -> None:
        """Expect generated names with this prefix and a random suffix."""
        self._generated.append(re.compile(rf"(?<={re.escape(prefix[:_LONGEST_PREFIX])})[{_SUFFIX_LETTERS}]{{5}}\b"))

    def __call__(self, value: Any, key: str = "") -> Any:
        """Return the comparable form of a decoded body, or of text."""
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            items = [self(item, key) for item in value]
            return sorted(items, key=_ORDERS[key]) if key in _ORDERS else items
        if isinstance(value, str):
            return self._text(key, value)
        return self._ordinal("port", str(value)) if key in ("nodePort", "healthCheckNodePort") and value else value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        walked = {name: self(item, name) for name, item in value.items()}
        metadata = walked.get("metadata")
        if isinstance(metadata, dict) and metadata.get("resourceVersion"):
            raw = value["metadata"]["resourceVersion"]
            of_many = "items" in value or "rows" in value or _is_bookmark(value)
            metadata["resourceVersion"] = "<version>" if of_many else self._ordinal("version", raw)
        return walked

    def _text(self, key: str, text: str) -> str:
        rule = _BY_KEY.get(key)
        if rule and text:
            return rule(self, text)
        for generated in self._generated:
            text = generated.sub(lambda found: self._ordinal("suffix", found[0]), text)
        text = _UID.sub(lambda found: self._ordinal("uid", found[0]), text)
        text = _VERSION.sub(lambda found: self._ordinal("version", found[0]), text)
        text = _QUOTED_OBJECT.sub("Invalid value: <object>: ", text)
        text = _ISSUER.sub("<issuer>", _CURRENT.sub("<version>", text))
        text = _TIME.sub(lambda found: "<microtime>" if found[1] else "<time>", text)
        return _SERVER.sub("<server>", text)

    def _ordinal(self, what: str, value: str) -> str:
        known = self._ordinals.setdefault(what, {})
        return known.setdefault(value, f"<{what} {len(known) + 1}>")

    def _address(self, text: str) -> str:
        return self._ordinal("address", text) if _ADDRESS.match(text) else text


_BY_KEY: dict[str, Callable[[Normaliser, str], str]] = {
    "continue": lambda _, __: "<continue>",
    "clusterIP": Normaliser._address,
    "clusterIPs": Normaliser._address,
    "cells": lambda self, text: "<age>" if _AGE.match(text) else self._address(self._text("", text)),
}


def _is_bookmark(value: dict[str, Any]) -> bool:
    """Return true for the bare object of a BOOKMARK event, which has a version and no name."""
    return not value["metadata"].get("name")


def _by(*keys: str) -> Callable[[Any], tuple[str, ...]]:
    return lambda entry: tuple(str(entry.get(key, "")) for key in keys)


# Lists that the real server fills in the order of a Go map, or of times.
_ORDERS = {
    "managedFields": _by("operation", "manager", "subresource", "apiVersion", "fieldsV1"),
    "causes": _by("field", "reason", "message"),
}
