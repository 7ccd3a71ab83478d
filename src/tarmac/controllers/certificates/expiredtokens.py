"""Deletes the Secrets of expired bootstrap tokens, as Kubernetes' token cleaner does."""

from __future__ import annotations

from typing import Any

from tarmac.api.identities import NAMESPACE
from tarmac.api.nodetokens import SECRET_PREFIX, SECRET_TYPE, secret_fields
from tarmac.api.status import Conflict, NotFound
from tarmac.base.clock import parse_rfc3339
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.client.targets.untyped import SECRETS
from tarmac.controllers.context import ControllerContext

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
            await self._secrets.delete(
                metadata["name"], NAMESPACE, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
            )
        except (NotFound, Conflict):
            return None  # deleted, or extended meanwhile
        return None


def _tokens(item: Item[Any]) -> list[str]:
    return [item.key] if item.key.startswith(_PREFIX) else []
