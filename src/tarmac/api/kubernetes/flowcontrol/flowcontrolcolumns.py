"""The columns of `kubectl get` for the kinds of flow control."""

from __future__ import annotations

from typing import Any, Final

from tarmac.api.checks import mapping, objects
from tarmac.api.kubernetes.cells import AGE, NAME, NONE, cell, field
from tarmac.api.resource import Column
from tarmac.api.schema import JsonObject

_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_DANGLING: Final = "references a broken or non-existent PriorityLevelConfiguration"


def _method(schema: JsonObject) -> str:
    return mapping(schema, "spec", "distinguisherMethod").get("type", NONE)


def _dangling(schema: JsonObject) -> str:
    found = (each["status"] for each in objects(schema, "status", "conditions") if each.get("type") == "Dangling")
    return next(found, "?")


def _limited(name: str, description: str, *path: str) -> Column:
    *keys, last = path

    def value(level: JsonObject) -> Any:
        found = mapping(level, "spec", "limited", *keys).get(last)
        return NONE if found is None else found

    return cell(name, value, description)


COLUMNS: Final[dict[tuple[str, str], tuple[Column, ...]]] = {
    (_GROUP, "FlowSchema"): (
        NAME,
        cell(
            "PriorityLevel",
            lambda obj: mapping(obj, "spec", "priorityLevelConfiguration").get("name", ""),
            ".spec.priorityLevelConfiguration.name",
        ),
        field("MatchingPrecedence", ".spec.matchingPrecedence"),
        cell("DistinguisherMethod", _method, ".spec.distinguisherMethod"),
        AGE,
        cell("MissingPL", _dangling, _DANGLING),
    ),
    (_GROUP, "PriorityLevelConfiguration"): (
        NAME,
        cell("Type", lambda obj: mapping(obj, "spec").get("type", ""), ".spec.type"),
        _limited("NominalConcurrencyShares", ".spec.limited.nominalConcurrencyShares", "nominalConcurrencyShares"),
        _limited("Queues", ".spec.limited.limitResponse.queuing.queues", "limitResponse", "queuing", "queues"),
        _limited("HandSize", ".spec.limited.limitResponse.queuing.handSize", "limitResponse", "queuing", "handSize"),
        _limited(
            "QueueLengthLimit",
            ".spec.limited.limitResponse.queuing.queueLengthLimit",
            "limitResponse", "queuing", "queueLengthLimit",
        ),
        AGE,
    ),
}  # fmt: skip
