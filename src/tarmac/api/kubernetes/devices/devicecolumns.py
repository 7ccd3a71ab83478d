"""The columns of `kubectl get` for the kinds of `resource.k8s.io`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tarmac.api.checks import mapping
from tarmac.api.kubernetes.cells import AGE, NAME, cell, field
from tarmac.api.resource import Column
from tarmac.api.schema import JsonObject

_GROUP: Final = "resource.k8s.io"
_STATE: Final = "A summary of the current state (allocated, pending, reserved, etc.)."


def _states(claim: JsonObject) -> Iterator[str]:
    status, deleted = mapping(claim, "status"), "deletionTimestamp" in claim["metadata"]
    if deleted:
        yield "deleted"
    if status.get("allocation") is not None:
        yield "allocated"
        if status.get("reservedFor"):
            yield "reserved"
    elif not deleted:
        yield "pending"


COLUMNS: Final[dict[tuple[str, str], tuple[Column, ...]]] = {
    (_GROUP, "DeviceClass"): (NAME, AGE),
    (_GROUP, "ResourceClaim"): (NAME, cell("State", lambda obj: ",".join(_states(obj)), _STATE), AGE),
    (_GROUP, "ResourceClaimTemplate"): (NAME, AGE),
    (_GROUP, "ResourceSlice"): (
        NAME,
        field("Node", ".spec.nodeName"),
        field("Driver", ".spec.driver"),
        field("Pool", ".spec.pool.name"),
        AGE,
    ),
}
