"""Decides a bootstrap token's request for a node certificate: only for a name that is not in use.

On Tarmac's server the Node is created here, at the token's Location, before the certificate is approved. That reserves
the name atomically and fixes the Location before the node can report anything. After a crash between the two steps, the
next pass finds the Node of this token and key without a report from its agent, and continues: a joining machine keeps
its key until it has its certificate, and no other machine gets one for the same use. A Node that has reported is alive
and its name is taken; so is the name of a Node that was created in another way. A use of the token is taken before the
Node is created (`tokenuses`), but after a dry run, so that a request that must fail costs no use.

On other servers no Node is created; an existing Node blocks the name just the same.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.identities import BOOTSTRAPPERS, KEY_OF_NODE, LOCATION_OF_TOKEN, TOKEN_OF_NODE
from tarmac.api.networking.cities import labels_at
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, Invalid, NotFound
from tarmac.client.client import Client
from tarmac.client.targets.untyped import LOCATIONS, NODES
from tarmac.controllers.certificates.tokenuses import NodeTokenUses, TokenSpent


class ApprovalDecision(NamedTuple):
    """The decision about a request: the condition to set."""

    type: str  # Approved or Denied
    reason: str
    message: str


APPROVED = ApprovalDecision(
    "Approved", "AutoApproved", "Auto approving kubelet client certificate after SubjectAccessReview."
)


class BootstrapApprover:
    """Decides requests from users that may request any node's certificate."""

    def __init__(self, client: Client) -> None:
        self._nodes = client.resource(NODES)
        self._locations = client.resource(LOCATIONS)
        self._uses = NodeTokenUses(client)

    async def decide(self, spec: JsonObject, node: str, key: str) -> ApprovalDecision | None:
        """Decide a request by its spec, the node's name and the digest of its key.

        None leaves it to a human.
        """
        extra: dict[str, list[str]] = spec.get("extra") or {}
        tokens = extra.get(TOKEN_OF_NODE) or ()
        if tokens:
            return await self._claimed(node, key, tokens[0], (extra.get(LOCATION_OF_TOKEN) or [""])[0])
        # The name is not reserved on these servers: of two requests at once, both are approved.
        if await self._get(node) is None:
            return APPROVED
        return _name_taken(node) if BOOTSTRAPPERS in (spec.get("groups") or ()) else None

    async def _claimed(self, node: str, key: str, token: str, location: str) -> ApprovalDecision:
        try:
            labels = labels_at(await self._locations.get(location)) if location else {}
        except NotFound:
            return ApprovalDecision(
                "Denied", "LocationGone", f'the token is for location "{location}", which is not there'
            )
        metadata = {"name": node, "labels": labels, "annotations": {TOKEN_OF_NODE: token, KEY_OF_NODE: key}}
        body: JsonObject = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        try:
            # Dry run first: a use of the token is spent only if the Node can be created.
            if refusal := await self._create_node(body, dry_run=True):
                return refusal
            # Before the Node: a crash in between leaves a counted use, which the next pass recognises by its key. The
            # other order could leave a node that was never counted.
            await self._uses.claim(token, node, key)
            return await self._create_node(body, dry_run=False) or APPROVED
        except TokenSpent as spent:
            return ApprovalDecision("Denied", spent.reason, str(spent))

    async def _create_node(self, body: JsonObject, *, dry_run: bool) -> ApprovalDecision | None:
        """Create the Node, or find the one of this token and key. Return the denial otherwise."""
        node = body["metadata"]["name"]
        try:
            await self._nodes.create(body, dry_run=dry_run)
        except AlreadyExists:
            known = await self._get(node)
            return _objection(known, body) if known is not None else _name_taken(node)
        except Invalid as error:
            return ApprovalDecision("Denied", "InvalidNode", str(error))
        return None

    async def _get(self, node: str) -> JsonObject | None:
        try:
            return await self._nodes.get(node)
        except NotFound:
            return None


def _objection(known: JsonObject, wanted: JsonObject) -> ApprovalDecision | None:
    """Deny if the existing Node was created for another token or key, or has reported. None otherwise."""
    made_for, asked = known["metadata"].get("annotations") or {}, wanted["metadata"]["annotations"]
    name = known["metadata"]["name"]
    reported = any(((known.get("status") or {}).get("nodeInfo") or {}).values())
    # A node that has reported is alive: a second machine of its name would take over its pods.
    if reported or made_for.get(TOKEN_OF_NODE) != asked[TOKEN_OF_NODE]:
        return _name_taken(name)
    # Nodes created by an earlier version have no key annotation.
    if made_for.get(KEY_OF_NODE, asked[KEY_OF_NODE]) == asked[KEY_OF_NODE]:
        return None
    why = (
        f'token "{asked[TOKEN_OF_NODE]}" was used for node "{name}" with another key: if the machine has lost its key, '
        f"delete the node (kubectl delete node {name}) and create another token; if not, the token has leaked"
    )
    return ApprovalDecision("Denied", "NodeNameTaken", why)


def _name_taken(node: str) -> ApprovalDecision:
    why = f'there is a node "{node}" already: delete it first (kubectl delete node {node}), or choose another name'
    return ApprovalDecision("Denied", "NodeNameTaken", why)
