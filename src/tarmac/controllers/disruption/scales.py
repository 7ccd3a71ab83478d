"""Scales of Kubernetes' own kinds that control pods: of a ReplicaSet, or of the Deployment above it, and the like.

They are read when a budget is counted, by `/scale`, as Kubernetes' controller does: a change of a scale changes pods,
and these wake the budget.
"""

from __future__ import annotations

from typing import Any, Final

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, Forbidden, MethodNotAllowed, NotFound
from tarmac.client.client import Client
from tarmac.client.envelope import EnvelopeOwner
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import (
    KUBERNETES_DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)

MAX_OWNERS: Final = 100
"""Limit of owners that are asked for one budget: a tenant writes owner references, and each costs a request."""

_TARGETS: Final[dict[tuple[str, str], Target[Any]]] = {
    (f"{target.group}/{target.version}" if target.group else target.version, target.kind): target
    for target in (KUBERNETES_DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)
}


class Scales:
    """Reads scales from the server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def knows(self, owner: EnvelopeOwner) -> bool:
        """Return whether objects of the owner's kind have a scale."""
        return (owner.api_version, owner.kind) in _TARGETS

    async def of(self, namespace: str, owner: EnvelopeOwner) -> tuple[str, int] | None:
        """Return uid and scale of the object that scales an owner's pods; None if it is gone."""
        found = await self._scale(namespace, owner.api_version, owner.kind, owner.name, owner.uid)
        if found is None or owner.kind != "ReplicaSet":
            return found
        try:
            replica_set = await self._client.resource(REPLICA_SETS).get(owner.name, namespace)
        except NotFound:
            return None
        above = _controller(replica_set)
        if above is None or above["kind"] != "Deployment":
            return found
        place = above["apiVersion"], above["kind"], above["name"], above["uid"]
        return await self._scale(namespace, *place) or found

    async def _scale(self, namespace: str, version: str, kind: str, name: str, uid: str) -> tuple[str, int] | None:
        target = _TARGETS.get((version, kind))
        if target is None:
            return None
        try:
            scale = await self._client.get_json(target.path(namespace, name, "scale"))
        except (BadRequest, Forbidden, MethodNotAllowed, NotFound):
            return None
        # By uid: an object made again under the name does not own these pods.
        own = scale["metadata"].get("uid") == uid
        return (uid, (scale.get("spec") or {}).get("replicas", 0)) if own else None


def _controller(obj: JsonObject) -> JsonObject | None:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)
