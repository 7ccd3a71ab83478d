"""Counts the machines that a token has joined, in its Secret, before a certificate is issued.

A use is a node's name with one key. It is written conditionally on the Secret's version, so of twenty concurrent
requests with a token of five uses, five succeed. After a crash between this write and the Node's creation, the next
pass finds name and key and continues: they count once. The name with another key is another use, also after its Node
was deleted: a one-use token never has two keys signed. A name revoked after its use stays used for this token: the data
left on a removed machine must not bring it back.

A token alone, without a request, takes no use.
"""

from __future__ import annotations

import base64
import json

from tarmac.api.identities import NAMESPACE
from tarmac.api.nodetokens import SECRET_PREFIX, USED, USED_KEYS, USES, secret_fields, used_keys, used_names
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.client.client import Client
from tarmac.client.targets.untyped import SECRETS
from tarmac.controllers.revoking import refused_until

_REMEDY = "make another one with `tarmac token create`"


class TokenSpent(Exception):
    """The token joins no more machines. `reason` is the condition's reason, the text its message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NodeTokenUses:
    """Counts the uses of tokens that have a limit."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._secrets = client.resource(SECRETS)

    async def claim(self, token: str, node: str, key: str) -> None:
        """Take a use of the token for the node and the digest of its key, unless they have one. Raises TokenSpent."""
        # Read, count and write until no other request wrote in between: otherwise two requests take the last use.
        while True:
            secret = await self._secret(token)
            fields = secret_fields(secret)
            self._check_expiry(token, fields)
            used, keys, most = _counted(token, fields)
            if node in used:
                await self._check_removed(token, node, used[node])
            # This name and key have a use already: a pass repeated after a crash must not take a second one.
            if most == 0 or key in keys.get(node, ()):
                return
            # A use that an earlier version counted has no key yet, and gets this one.
            if (node not in used or keys.get(node)) and _count(used, keys) >= most:
                raise TokenSpent("TokenUsedUp", f'token "{token}" is used up ({most} of {most} uses): {_REMEDY}')
            used.setdefault(node, rfc3339(self._client.clock.now()))
            keys.setdefault(node, []).append(key)
            try:
                await self._secrets.update(_with(secret, used, keys))
            except Conflict:
                continue  # another request took a use meanwhile: count again
            return

    async def _secret(self, token: str) -> JsonObject:
        try:
            return await self._secrets.get(SECRET_PREFIX + token, NAMESPACE)
        except NotFound:
            raise TokenSpent("TokenExpired", f'token "{token}" is gone: {_REMEDY}') from None

    def _check_expiry(self, token: str, fields: dict[str, str]) -> None:
        if text := fields.get("expiration"):
            try:
                over = parse_rfc3339(text) <= self._client.clock.now()
            except ValueError:
                over = True
            if over:
                raise TokenSpent("TokenExpired", f'token "{token}" expired at {text}: {_REMEDY}')

    async def _check_removed(self, token: str, node: str, at: str) -> None:
        # Data left on a removed machine must not bring it back, not even with the token that it joined with.
        if await refused_until(self._client, f"system:node:{node}") >= parse_rfc3339(at):
            why = f'token "{token}" was used for node "{node}", which was removed since: {_REMEDY}'
            raise TokenSpent("TokenUsedUp", why)


def _counted(token: str, fields: dict[str, str]) -> tuple[dict[str, str], dict[str, list[str]], int]:
    """Return the names so far, their keys, and the limit; 0 is unlimited. Raises TokenSpent."""
    try:
        return used_names(fields), used_keys(fields), int(fields.get(USES) or "0")
    except ValueError as error:
        raise TokenSpent("TokenUsedUp", f'token "{token}" cannot be counted ({error}): {_REMEDY}') from error


def _count(used: dict[str, str], keys: dict[str, list[str]]) -> int:
    return sum(max(1, len(keys.get(node, ()))) for node in used)


def _with(secret: JsonObject, used: dict[str, str], keys: dict[str, list[str]]) -> JsonObject:
    fields = {USED: used, USED_KEYS: keys}
    encoded = {name: base64.b64encode(json.dumps(value).encode()).decode() for name, value in fields.items()}
    return {**secret, "data": {**secret["data"], **encoded}}
