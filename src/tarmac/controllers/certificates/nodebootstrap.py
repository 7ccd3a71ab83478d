"""A bootstrap token's request for the certificate of a node: only for a name that is not in use.

On Tarmac's server the Node is made here, under the token's location, before the certificate is approved. That makes the
name taken in one step, whoever else asks for it, and says where the node is before the node can say anything. Killed
between the two, the next pass finds the Node of this token, which nobody has reported from yet, and goes on. A Node
that has reported is alive, and its name is nobody else's; nor is that of a Node which was made in another way.

On other servers nothing is made, and an existing Node is in the way just the same.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.identities import BOOTSTRAPPERS, LOCATION_OF_TOKEN, TOKEN_OF_NODE
from tarmac.api.networking.cities import labels_at
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, Invalid, NotFound
from tarmac.client.client import Client
from tarmac.client.targets.untyped import LOCATIONS, NODES


class ApprovalDecision(NamedTuple):
    """What becomes of a request: the condition to set."""

    type: str  # Approved or Denied
    reason: str
    message: str


APPROVED = ApprovalDecision(
    "Approved", "AutoApproved", "Auto approving kubelet client certificate after SubjectAccessReview."
)


class NewNodes:
    """Decides about requests of those who may ask for any node's certificate."""

    def __init__(self, client: Client) -> None:
        self._nodes = client.resource(NODES)
        self._locations = client.resource(LOCATIONS)

    async def decide(self, spec: JsonObject, node: str) -> ApprovalDecision | None:
        """About the spec of a request for the certificate of `node`; None leaves it to a human."""
        extra: dict[str, list[str]] = spec.get("extra") or {}
        tokens = extra.get(TOKEN_OF_NODE) or ()
        if tokens:
            return await self._claimed(node, tokens[0], (extra.get(LOCATION_OF_TOKEN) or [""])[0])
        if await self._get(node) is None:
            return APPROVED
        return _taken(node) if BOOTSTRAPPERS in (spec.get("groups") or ()) else None

    async def _claimed(self, node: str, token: str, location: str) -> ApprovalDecision:
        try:
            labels = labels_at(await self._locations.get(location)) if location else {}
        except NotFound:
            return ApprovalDecision(
                "Denied", "LocationGone", f'the token is for location "{location}", which is not there'
            )
        metadata = {"name": node, "labels": labels, "annotations": {TOKEN_OF_NODE: token}}
        try:
            await self._nodes.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        except AlreadyExists:
            known = await self._get(node)
            return APPROVED if known is not None and _awaits(known, token) else _taken(node)
        except Invalid as error:
            return ApprovalDecision("Denied", "InvalidNode", str(error))
        return APPROVED

    async def _get(self, node: str) -> JsonObject | None:
        try:
            return await self._nodes.get(node)
        except NotFound:
            return None


def _awaits(node: JsonObject, token: str) -> bool:
    """Whether the Node was made for this token, and nobody has been it yet."""
    made_for = (node["metadata"].get("annotations") or {}).get(TOKEN_OF_NODE)
    return made_for == token and not any(((node.get("status") or {}).get("nodeInfo") or {}).values())


def _taken(node: str) -> ApprovalDecision:
    why = f'there is a node "{node}" already: delete it first (kubectl delete node {node}), or choose another name'
    return ApprovalDecision("Denied", "NodeNameTaken", why)
