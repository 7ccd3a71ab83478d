"""Fills Secrets of type `kubernetes.io/service-account-token`, and deletes those whose ServiceAccount is gone.

Such a Secret names its account by an annotation; the account's uid, once known, is written beside it. An account of the
same name with another uid is a different account, so the Secret is deleted. Missing keys are filled in (token, CA
certificate, namespace); an existing token is left alone, even if it is invalid: deleting it from the Secret creates a
new one and revokes the old. Without the server's signing key the controller does nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

from tarmac.api.identities import TokenHolder
from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid, NotFound
from tarmac.base.tasks import background
from tarmac.client.cache import Item
from tarmac.client.controller import TerminalError
from tarmac.client.targets.untyped import SECRETS, SERVICE_ACCOUNTS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.serviceaccount.rootca import changes
from tarmac.controllers.writes import delete_same

TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"
_BY_ACCOUNT = "account"
_MANAGER = "tarmac-serviceaccounttoken"


class TokenController:
    """Reconciles by the Secret's key."""

    def __init__(self, context: ControllerContext) -> None:
        self._sign = context.sign_token
        self._root_ca = context.root_ca
        self._clock = context.client.clock
        if self._sign is None:
            return
        self._secrets = context.client.resource(SECRETS)
        self._accounts = context.client.resource(SERVICE_ACCOUNTS)
        self._known = context.informers.informer(SECRETS, fields=f"type={TYPE}")
        self._known.add_index(_BY_ACCOUNT, _account_of)
        self._known_accounts = context.informers.informer(SERVICE_ACCOUNTS)
        self._controller = context.controller("serviceaccounttoken", self.reconcile)
        self._controller.watches(self._known)
        self._controller.watches(self._known_accounts, self._secrets_of)

    async def run(self) -> None:
        """Work until cancelled."""
        if self._sign is None:
            await asyncio.Event().wait()
        async with background(self._watch_root_ca(), "the server's authorities"):
            await self._controller.run()

    async def _watch_root_ca(self) -> None:
        """Requeue every Secret when the server's CA bundle changes."""
        async for _ in changes(self._root_ca, self._clock):
            for item in self._known.cache.items():
                self._controller.queue.add(item.key)

    async def reconcile(self, key: str) -> None:
        """Fill one Secret, or delete it."""
        item = self._known.cache.item(key)
        if item is None or item.metadata.deletion_timestamp is not None or not _account_of(item):
            return
        account_uid = await self._account_uid(item)
        if account_uid:
            await self._fill(item, account_uid)
            return
        # by uid: a new Secret of that name may belong to another account
        await delete_same(self._secrets, item.metadata)

    async def _account_uid(self, item: Item[Any]) -> str:
        """Return the uid of a Secret's account; empty when there is none, or another one of that name."""
        annotations, (key,) = item.metadata.annotations or {}, _account_of(item)
        known = self._known_accounts.cache.item(key)
        if known is not None and annotations.get(ACCOUNT_UID) in (None, "", known.metadata.uid):
            return known.metadata.uid
        # The cache may be older than the Secret: a client that creates both at once must not lose the Secret.
        try:
            account = await self._accounts.get(annotations[ACCOUNT_NAME], item.metadata.namespace)
        except NotFound:
            return ""
        uid: str = account["metadata"]["uid"]
        return uid if annotations.get(ACCOUNT_UID) in (None, "", uid) else ""

    async def _fill(self, item: Item[Any], account_uid: str) -> None:
        own = item.metadata
        missing = self._missing(item.object.get("data") or {}, own.namespace)
        if not missing:
            return
        account = (own.annotations or {})[ACCOUNT_NAME]
        if "token" in missing:
            assert self._sign is not None, "nothing is watched without a key"
            missing["token"] = self._sign(TokenHolder(own.namespace, account, account_uid, own.name, own.uid))
        patch = {
            # Conditional: a concurrent change may have filled the Secret, or assigned it to another account.
            "metadata": {"resourceVersion": own.resource_version, "annotations": {ACCOUNT_UID: account_uid}},
            "data": {name: base64.b64encode(text.encode()).decode() for name, text in missing.items()},
        }
        try:
            await self._secrets.patch(own.name, patch, own.namespace, manager=_MANAGER, uid=own.uid)
        except Invalid as refusal:
            raise TerminalError(f"cannot be filled: {refusal}") from refusal

    def _missing(self, data: JsonObject, namespace: str) -> dict[str, str]:
        """Return the missing values by key; the token is still empty."""
        wanted = {"namespace": namespace, "token": ""}
        found = {name: text for name, text in wanted.items() if not data.get(name)}
        root_ca = self._root_ca()
        if root_ca and _decoded(data.get("ca.crt")) != root_ca.encode():
            found["ca.crt"] = root_ca
        return found

    def _secrets_of(self, account: Item[Any]) -> list[str]:
        return [item.key for item in self._known.indexed(_BY_ACCOUNT, account.key)]


def _account_of(item: Item[Any]) -> tuple[str, ...]:
    """Index: Secrets by the key of the account they name."""
    name = (item.metadata.annotations or {}).get(ACCOUNT_NAME)
    return (f"{item.metadata.namespace}/{name}",) if name else ()


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "")
    except binascii.Error:
        return b""
