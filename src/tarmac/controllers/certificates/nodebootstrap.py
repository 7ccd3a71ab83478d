"""A bootstrap token's request for the certificate of a node: only for a name that is not in use.

On Tarmac's server the Node is made here, under the token's location, before the certificate is approved. That makes the
name taken in one step, whoever else asks for it, and says where the node is before the node can say anything. Killed
between the two, the next pass finds the Node of this token, which nobody has reported from yet, and goes on. A Node
that has reported is alive, and its name is nobody else's; nor is that of a Node which was made in another way. A use of
the token is taken before the Node is made (`tokenuses`), and after it is known that the Node can be made, so that a
request that comes to nothing costs none.

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
from tarmac.controllers.certificates.tokenuses import NodeTokenUses, TokenSpent


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
        self._uses = NodeTokenUses(client)

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
        body: JsonObject = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        try:
            if refusal := await self._made(body, token, dry_run=True):
                return refusal
            await self._uses.claim(token, node)
            return await self._made(body, token, dry_run=False) or APPROVED
        except TokenSpent as spent:
            return ApprovalDecision("Denied", spent.reason, str(spent))

    async def _made(self, body: JsonObject, token: str, *, dry_run: bool) -> ApprovalDecision | None:
        """Have the Node, or find the one of this token; why not, if not."""
        node = body["metadata"]["name"]
        try:
            await self._nodes.create(body, dry_run=dry_run)
        except AlreadyExists:
            known = await self._get(node)
            return None if known is not None and _awaits(known, token) else _taken(node)
        except Invalid as error:
            return ApprovalDecision("Denied", "InvalidNode", str(error))
        return None

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
