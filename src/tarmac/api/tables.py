"""Schemas of Kubernetes' own kinds, from the tables that `make setup` generates.

The file holds one JSON value per published type. Types are decoded when a kind that refers to them is first used, and
all kinds share one node per type, so a server pays only for the kinds that its clients use. A field that gives a shared
type rules of its own (a patch strategy) gets a copy of the node that shares the field table.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tarmac.api.schema import Schema, Type

GENERATED = Path(__file__).parent / "kubernetes" / "_generated"


class TablesMissing(Exception):
    """The generated tables are missing: the project was not set up."""


class _File(msgspec.Struct):
    kinds: dict[str, str]
    published: msgspec.Raw  # all kinds of Kubernetes, served or not; used only for error messages
    types: dict[str, msgspec.Raw]


def read_generated(name: str) -> bytes:
    """Return the content of one generated file. Raises TablesMissing."""
    try:
        return (GENERATED / name).read_bytes()
    except FileNotFoundError:
        raise TablesMissing(f"{GENERATED / name} is missing; run `make setup`") from None


@cache
def _file() -> _File:
    return msgspec.json.decode(read_generated("types.json"), type=_File)


def load_schema(group: str, version: str, kind: str) -> Schema:
    """Return the schema of one kind. Raises KeyError for a kind that is not in the tables."""
    return _named(_file().kinds[f"{group}/{version}/{kind}"])


def type_name(group: str, version: str, kind: str) -> str | None:
    """Return the published name of a kind's type, if it is in the tables. Every group has the same DeleteOptions."""
    return _file().kinds.get(f"{group}/{version}/{kind}" if kind != "DeleteOptions" else "/v1/DeleteOptions")


def is_published(group: str, version: str, kind: str) -> bool:
    """Return True if Kubernetes has such a kind, served here or not."""
    return f"{group}/{version}/{kind}" in msgspec.json.decode(_file().published)


_types: dict[str, Schema] = {}
_leaves: dict[bytes, Schema] = {}


def _named(name: str) -> Schema:
    """Return the node of a published type.

    It is registered before its fields are read, so types may refer to themselves.
    """
    known = _types.get(name)
    if known is not None:
        return known
    row: dict[str, Any] = msgspec.json.decode(_file().types[name])
    schema = _types[name] = Schema(
        Type.OBJECT,
        required=tuple(row.get("required", ())),
        atomic=row.get("atomic", False),
        always=row.get("always", {}),
        keep_empty=frozenset(row.get("keep_empty", ())),
        embedded=row.get("embedded", {}),
        name=name,
    )
    for field, node in row.get("fields", {}).items():
        schema.fields[field] = _node(node)
    return schema


def _node(row: dict[str, Any]) -> Schema:
    reference = row.pop("ref", None)
    if reference is not None:
        return dataclasses.replace(_named(reference), **_rules(row)) if row else _named(reference)
    key = msgspec.json.encode(row)
    if key not in _leaves:
        items = row.pop("items", None)
        leaf = Schema(Type(row.pop("type")), items=_node(items) if items else None, **_rules(row))
        _leaves[key] = leaf
    return _leaves[key]


def _rules(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
