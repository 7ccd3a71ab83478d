"""Reconciles CertificateSigningRequests: approves permitted ones, signs approved ones, deletes old ones.

A node's client certificate is approved when its sender has the permission: for itself (`selfnodeclient`, renewal) or
for any node whose name is not in use (`nodeclient`, bootstrap tokens; see `nodebootstrap`). Both are checked by
SubjectAccessReview. A serving certificate is approved when the node itself requests it, its names are exactly the
addresses in its Node object, and no other node or Service has them (`servingnames`). A request of a user or node whose
certificates have been revoked since is denied, and gets no certificate if it is approved already. Requests are kept for
an hour after the decision, and for a day while undecided.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from tarmac.api.conditions import condition_of
from tarmac.api.identities import NAMESPACE
from tarmac.api.nodetokens import SECRET_PREFIX, SECRET_TYPE, secret_fields
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter, TerminalError
from tarmac.client.targets.untyped import ACCESS_REVIEWS, CERTIFICATE_REQUESTS, NODES, SECRETS
from tarmac.controllers.certificates.nodebootstrap import ApprovalDecision, BootstrapApprover
from tarmac.controllers.certificates.requests import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    CertificateRequest,
    objection,
    parse,
)
from tarmac.controllers.certificates.servingnames import NameOwners
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.revoking import refused_until

KEPT_DECIDED = 3600.0
KEPT_PENDING = 24 * 3600.0
SIGNED_HERE = frozenset((CLIENT, KUBELET_CLIENT, KUBELET_SERVING))

_PREFIX = f"{NAMESPACE}/{SECRET_PREFIX}"


class TokenCleaner:
    """Reconciles by the Secret's key."""

    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.client.clock
        self._secrets = context.client.resource(SECRETS)
        self._known = context.informers.informer(SECRETS)
        self._controller = context.controller("certificates-tokens", self.reconcile)
        self._controller.watches(self._known, _tokens)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, key: str) -> RetryAfter | None:
        """Delete one token if it has expired, otherwise retry when it will have."""
        secret = self._known.get(key)
        if secret is None or secret.get("type") != SECRET_TYPE:
            return None
        try:
            left = parse_rfc3339(secret_fields(secret).get("expiration", "")) - self._clock.now()
        except ValueError:
            return None  # none or unreadable: such a token never expires, or is not accepted anyway
        if left > 0:
            return RetryAfter(left)
        metadata = secret["metadata"]
        try:
            # With uid and version: a token that was extended or made again since the cache showed it must stay.
            await self._secrets.delete(
                metadata["name"], NAMESPACE, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
            )
        except (NotFound, Conflict):
            return None  # deleted, or extended meanwhile
        return None


def _tokens(item: Item[Any]) -> list[str]:
    return [item.key] if item.key.startswith(_PREFIX) else []


class CertificateController:
    """Reconciles by request name."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._requests = context.client.resource(CERTIFICATE_REQUESTS)
        self._sign = context.sign
        self._informer = context.informers.informer(CERTIFICATE_REQUESTS)
        self._bootstrap_approver = BootstrapApprover(context.client)
        self._name_owners = NameOwners(context)
        self._token_cleaner = TokenCleaner(context)
        self._controller = context.controller("certificates", self.reconcile)
        self._controller.watches(self._informer)
        # Complete before the first decision: names of nodes that are not listed yet would count as free.
        self._controller.awaits(self._name_owners.nodes)
        self._controller.awaits(self._name_owners.services)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(self._token_cleaner.run())

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Take the due step for one request: approve, sign or delete it."""
        document = self._informer.get(name)
        if document is None:
            return None
        left = self._kept_until(document) - self._client.clock.now()
        if left <= 0:
            # By uid: a new request may have the name by now.
            await self._requests.delete(name, uid=document["metadata"]["uid"])
            return None
        decided = condition_of(document, "Approved"), condition_of(document, "Denied")
        if not any(decided):
            await self._approve(document)
        # A denial wins, whichever came first: an administrator may deny a request after its automatic approval.
        elif decided[0] and not decided[1] and not condition_of(document, "Failed"):
            await self._issue(document)
        return RetryAfter(left)

    async def _approve(self, document: JsonObject) -> None:
        if document["spec"].get("signerName") not in (KUBELET_CLIENT, KUBELET_SERVING):
            return
        request = _parsed(document)
        if objection(request) is not None:
            return
        if await self._is_revoked(document):
            await self._conclude(document, "Denied", "RequesterRevoked", _revoked(document), subresource="approval")
            return
        # After the check of revocation: a review of the rights of a revoked user still succeeds.
        serving = request.signer == KUBELET_SERVING
        decision = await (self._about_serving(request) if serving else self._about_client(document, request))
        if decision is not None:
            await self._conclude(document, *decision, subresource="approval")

    async def _about_client(self, document: JsonObject, request: CertificateRequest) -> ApprovalDecision | None:
        if request.is_own and await self._may(document, "selfnodeclient"):
            return _approved("Auto approving self kubelet client certificate after SubjectAccessReview.")
        if await self._may(document, "nodeclient"):
            return await self._bootstrap_approver.decide(document["spec"], request.node, request.key)
        return None

    async def _about_serving(self, request: CertificateRequest) -> ApprovalDecision | None:
        if not request.is_own:
            return None
        try:
            # Read from the server: a cached Node may still show an address that another node has by now.
            node = await self._client.resource(NODES).get(request.node)
        except NotFound:
            return None
        addresses = frozenset(each["address"] for each in (node.get("status") or {}).get("addresses") or ())
        if request.names.hosts != addresses:
            return None
        why = await self._name_owners.objection(request, node)
        if why is not None:
            return ApprovalDecision(
                "Denied", "NotTheNodesOwn", f'node "{request.node}" may not serve under this: {why}'
            )
        return _approved("Auto approving kubelet serving certificate: its names are the node's addresses.")

    async def _may(self, document: JsonObject, subresource: str) -> bool:
        spec = document["spec"]
        review: JsonObject = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "metadata": {},
            "spec": {
                "user": spec.get("username", ""),
                "uid": spec.get("uid", ""),
                "groups": spec.get("groups") or [],
                "extra": spec.get("extra") or {},
                "resourceAttributes": {
                    "group": CERTIFICATE_REQUESTS.group,
                    "resource": CERTIFICATE_REQUESTS.plural,
                    "version": "*",
                    "verb": "create",
                    "subresource": subresource,
                },
            },
        }
        answer = await self._client.resource(ACCESS_REVIEWS).create(review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _issue(self, document: JsonObject) -> None:
        spec, status = document["spec"], document.get("status") or {}
        if self._sign is None or status.get("certificate") or spec.get("signerName") not in SIGNED_HERE:
            return
        request = _parsed(document)
        # Checked again: an administrator may have approved a request that the signer must reject.
        why = objection(request)
        if why is not None:
            await self._conclude(document, "Failed", "SignerValidationFailure", why, subresource="status")
            return
        try:
            # Repeated after a crash before the update: a second certificate for the same key does no harm.
            certificate = self._sign(request.pem, sorted(request.usages), spec.get("expirationSeconds"))
        except ValueError as error:
            await self._conclude(document, "Failed", "SigningFailure", str(error), subresource="status")
            return
        # After signing: a later revocation refuses the certificate by its time, an earlier one is seen here.
        if await self._is_revoked(document):
            await self._conclude(document, "Failed", "RequesterRevoked", _revoked(document), subresource="status")
            return
        # The update below carries the version that was read: a request denied since then gets no certificate.
        encoded = base64.b64encode(certificate.encode()).decode()
        await self._requests.update({**document, "status": {**status, "certificate": encoded}}, subresource="status")

    async def _is_revoked(self, document: JsonObject) -> bool:
        """Return True if the sender's certificates were revoked after the request was created."""
        user = document["spec"].get("username", "")
        # Read from the server: a cache that lags would sign for a certificate that was just revoked.
        return parse_rfc3339(document["metadata"]["creationTimestamp"]) < await refused_until(self._client, user)

    async def _conclude(self, document: JsonObject, type: str, reason: str, message: str, *, subresource: str) -> None:
        now = rfc3339(self._client.clock.now())
        condition = {
            "type": type,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        status: JsonObject = document.get("status") or {}
        conditions = [*(status.get("conditions") or ()), condition]
        await self._requests.update(
            {**document, "status": {**status, "conditions": conditions}}, subresource=subresource
        )

    def _kept_until(self, document: JsonObject) -> float:
        for decision in ("Approved", "Denied", "Failed"):
            condition = condition_of(document, decision)
            if condition.get("lastUpdateTime"):
                return parse_rfc3339(condition["lastUpdateTime"]) + KEPT_DECIDED
        return parse_rfc3339(document["metadata"]["creationTimestamp"]) + KEPT_PENDING


def _approved(message: str) -> ApprovalDecision:
    return ApprovalDecision("Approved", "AutoApproved", message)


def _revoked(document: JsonObject) -> str:
    user = document["spec"].get("username", "")
    return f'the certificates of "{user}" were revoked after this request: send another one with a valid credential'


def _parsed(document: JsonObject) -> CertificateRequest:
    try:
        return parse(document)
    except ValueError as error:
        raise TerminalError(str(error)) from error
