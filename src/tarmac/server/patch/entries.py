"""Decoded entries of metadata.managedFields.

A manager is identified by its name, operation, subresource and, for updates, API version; its `OwnedFields`
holds the fields it owns. Entries that the server wrote are canonical and used as they are; entries that a client sent
go through `decode`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tarmac.api.schema import JsonObject
from tarmac.server.patch.elements import BadElement, quoted
from tarmac.server.patch.fieldset import FieldSet, canonical, parse

UPDATE = "Update"
APPLY = "Apply"


class BadManagedFields(ValueError):
    """A malformed managedFields entry."""


class FieldManager(NamedTuple):
    """An owner of fields."""

    name: str
    operation: str
    version: str  # "" for an applier: it keeps its identity when it moves to another version
    subresource: str = ""

    def __str__(self) -> str:
        text = quoted(self.name)
        if self.subresource:
            text += f" with subresource {quoted(self.subresource)}"
        return f"{text} using {self.version}" if self.operation == UPDATE else text


class OwnedFields(NamedTuple):
    """The fields that a manager owns."""

    fields: FieldSet
    version: str
    time: str | None


Managers = dict[FieldManager, OwnedFields]


def updater(name: str, version: str, subresource: str) -> FieldManager:
    """Return the manager of a create, update or patch."""
    return FieldManager(name or "unknown", UPDATE, version, subresource)


def applier(name: str, subresource: str) -> FieldManager:
    """Return the manager of an apply."""
    return FieldManager(name or "unknown", APPLY, "", subresource)


def stored(metadata: JsonObject) -> Managers:
    """Return the managers of a stored object."""
    managers: Managers = {}
    for entry in metadata.get("managedFields") or ():
        version = entry["apiVersion"]
        operation = entry["operation"]
        key = "" if operation == APPLY else version
        manager = FieldManager(entry.get("manager", ""), operation, key, entry.get("subresource", ""))
        managers[manager] = OwnedFields(entry.get("fieldsV1") or {}, version, entry.get("time"))
    return managers


def decode(entries: Any) -> Managers:
    """Decode entries that a client sent. Raises BadManagedFields."""
    if not isinstance(entries, list):
        raise BadManagedFields("managedFields must be a list")
    for entry in entries:
        _check(entry)
    try:
        return {
            manager: claim._replace(fields=canonical(parse(claim.fields)))
            for manager, claim in stored({"managedFields": entries}).items()
        }
    except BadElement as error:
        raise BadManagedFields(str(error)) from error


def _check(entry: Any) -> None:
    if not isinstance(entry, dict):
        raise BadManagedFields("an entry must be an object")
    if entry.get("operation") not in (APPLY, UPDATE):
        raise BadManagedFields("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise BadManagedFields("apiVersion must not be empty")
    if entry.get("fieldsType") != "FieldsV1":
        raise BadManagedFields("fieldsType must be FieldsV1")


def encode(managers: Managers) -> list[JsonObject]:
    """Encode the entries of an object: appliers first, then oldest first."""
    return [
        _entry(manager, managers[manager]) for manager in sorted(managers, key=lambda one: _age(one, managers[one]))
    ]


def _age(manager: FieldManager, claim: OwnedFields) -> tuple[str, ...]:
    # kube-apiserver's order. Times are in whole seconds: without the other parts, entries would swap places between
    # writes.
    return (manager.operation, claim.time or "", manager.name, claim.version, manager.subresource)


def _entry(manager: FieldManager, claim: OwnedFields) -> JsonObject:
    entry: JsonObject = {"manager": manager.name, "operation": manager.operation, "apiVersion": claim.version}
    if claim.time is not None:
        entry["time"] = claim.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = claim.fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry
