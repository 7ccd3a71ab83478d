"""Bookkeeping of managedFields for every write that is not an apply.

A write makes its manager the owner of what it changed; what it removed or took over stops being anybody else's. Call
`for_update` where Kubernetes does: after decoding and defaulting, before admission and before the strategy prepares the
object, so that what the server fills in afterwards belongs to nobody.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.patch.fieldset import FieldSet, difference, of_paths
from tarmac.server.patch.ownership import compare
from tarmac.server.patch.shapes import shape_of

_UNOWNED: FieldSet = of_paths(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", "f:" + name)
        for name in (
            "clusterName",
            "creationTimestamp",
            "generation",
            "managedFields",
            "name",
            "namespace",
            "resourceVersion",
            "selfLink",
            "uid",
        )
    ),
)


def for_update(
    resource: Resource, old: JsonObject | None, new: JsonObject, manager: str, subresource: str, now: str
) -> None:
    """Set `new["metadata"]["managedFields"]` for a create (`old` is None), update or patch. Changes `new` in place.

    `manager` is the fieldManager parameter or the name from the User-Agent; `now` is RFC 3339 to the second.
    """
    changed = difference(compare(shape_of(resource.schema), old or {}, new).changed, _UNOWNED)
    entry: dict[str, Any] = {
        "manager": manager or "unknown",
        "operation": "Update",
        "apiVersion": resource.api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": changed,
    }
    new["metadata"]["managedFields"] = [entry]
