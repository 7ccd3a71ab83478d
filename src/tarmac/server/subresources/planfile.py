"""The body of a plan request: one object, or a file with it and other objects that would exist too.

A file is a `List`, in JSON.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from tarmac.api.decode import parse_json
from tarmac.api.decode.jsontext import Malformed
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest

MAX_OBJECTS: Final = 200  # each blocks the event loop for a tenth of a millisecond
MAX_WORKLOADS: Final = 20  # each needs a plan of its own


class PlanFile(NamedTuple):
    """The planned object as a body of its own, and the other objects."""

    planned: bytes
    others: list[JsonObject]


def read_file(body: bytes, group: str, kind: str, name: str) -> PlanFile | None:
    """Return the file in a body; None when the body is the object itself. Raises BadRequest, TooLarge."""
    if b'"List"' not in body:
        return None
    try:
        parsed = parse_json(body).value
    except Malformed:
        return None  # decoding it as the object reports the error
    if not isinstance(parsed, dict) or (parsed.get("apiVersion"), parsed.get("kind")) != ("v1", "List"):
        return None
    items = parsed.get("items")
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        raise BadRequest("items: must be a list of objects")
    if len(items) > MAX_OBJECTS:
        raise BadRequest(f"items: {len(items)} objects are too many to plan with; at most {MAX_OBJECTS}")
    workloads = sum(each.get("kind") == "Workload" for each in items)
    if workloads > MAX_WORKLOADS:
        raise BadRequest(f"items: {workloads} Workloads are too many to plan together; at most {MAX_WORKLOADS}")
    planned = [each for each in items if _is_meant(each, group, kind, name)]
    if len(planned) != 1:
        raise BadRequest(f"items: must hold the {kind} {name} once, and hold it {len(planned)} times")
    return PlanFile(msgspec.json.encode(planned[0]), [each for each in items if each is not planned[0]])


def _is_meant(obj: JsonObject, group: str, kind: str, name: str) -> bool:
    own, metadata = str(obj.get("apiVersion")).rpartition("/")[0], obj.get("metadata")
    named = metadata.get("name") if isinstance(metadata, dict) else None
    return (own, obj.get("kind"), named) == (group, kind, name)
