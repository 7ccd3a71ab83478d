"""What the node says beyond Kubernetes' own fields, on servers that keep such fields and on servers that drop them.

Nobody asks a server what it is. The fields are sent; where they do not come back they are sent as one annotation from
then on, with the same patch of the status, which a node may write as well. The annotation is taken away where the
fields are kept.
"""

from __future__ import annotations

import msgspec

from tarmac.api.kubernetes.core.nodeclasses import FIELDS, RESOURCES_ANNOTATION
from tarmac.api.schema import JsonObject


def were_dropped(sent: JsonObject, node: JsonObject) -> bool:
    """Whether the server answered a status that has some of the fields with a Node that lacks one of them."""
    status = node.get("status") or {}
    return any(sent.get(name) and not status.get(name) for name in FIELDS)


def without_own_fields(status: JsonObject) -> JsonObject:
    """The status as Kubernetes knows it."""
    return {name: value for name, value in status.items() if name not in FIELDS}


def annotation_change(status: JsonObject, node: JsonObject, dropped: bool) -> JsonObject:
    """A patch of the Node's metadata that makes its annotation say what the fields would; empty when it does."""
    known = (node["metadata"].get("annotations") or {}).get(RESOURCES_ANNOTATION)
    said = {name: status[name] for name in FIELDS if status.get(name)} if dropped else {}
    wanted = msgspec.json.encode(said).decode() if said else None
    return {"annotations": {RESOURCES_ANNOTATION: wanted}} if wanted != known else {}
