"""How many machines a token has joined: counted in its Secret, before anything is given for the use.

A use is a node's name. It is written under the version of the Secret that was read, so that of twenty who come at once
with a token of five uses five get one. Killed after that and before the Node is made, the next pass finds the name and
goes on: the same token and name count once. But a name that was revoked after its use is used up for this token: what
was on a machine that somebody removed must not bring it back.

Whoever holds a token and asks for nothing holds no use of it.
"""

from __future__ import annotations

import base64
import json

from tarmac.api.identities import NAMESPACE
from tarmac.api.nodetokens import SECRET_PREFIX, USED, USES, secret_fields, used_names
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.client.client import Client
from tarmac.client.targets.untyped import SECRETS
from tarmac.controllers.revoking import refused_until

_AGAIN = "make another one with `tarmac token create`"


class TokenSpent(Exception):
    """The token joins no more machines. `reason` is the word, the text the sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NodeTokenUses:
    """Counts uses of tokens that say how many there may be; others are not counted."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._secrets = client.resource(SECRETS)

    async def claim(self, token: str, node: str) -> None:
        """Take a use of the token for the node, or find that it has one. Raises TokenSpent."""
        while True:
            secret = await self._secret(token)
            fields = secret_fields(secret)
            self._check_expiry(token, fields)
            used, most = _counted(token, fields)
            if node in used:
                await self._check_removed(token, node, used[node])
            if most == 0 or node in used:
                return
            if len(used) >= most:
                raise TokenSpent("TokenUsedUp", f'token "{token}" is used up ({most} of {most} uses): {_AGAIN}')
            used[node] = rfc3339(self._client.clock.now())
            try:
                await self._secrets.update(_with(secret, used))
            except Conflict:
                continue  # somebody else took a use meanwhile: count again
            return

    async def _secret(self, token: str) -> JsonObject:
        try:
            return await self._secrets.get(SECRET_PREFIX + token, NAMESPACE)
        except NotFound:
            raise TokenSpent("TokenExpired", f'token "{token}" is gone: {_AGAIN}') from None

    def _check_expiry(self, token: str, fields: dict[str, str]) -> None:
        if text := fields.get("expiration"):
            try:
                over = parse_rfc3339(text) <= self._client.clock.now()
            except ValueError:
                over = True
            if over:
                raise TokenSpent("TokenExpired", f'token "{token}" expired at {text}: {_AGAIN}')

    async def _check_removed(self, token: str, node: str, at: str) -> None:
        if await refused_until(self._client, f"system:node:{node}") >= parse_rfc3339(at):
            why = f'token "{token}" was used for node "{node}", which was removed since: {_AGAIN}'
            raise TokenSpent("TokenUsedUp", why)


def _counted(token: str, fields: dict[str, str]) -> tuple[dict[str, str], int]:
    """Names so far, and how many there may be; 0 is any number."""
    try:
        return used_names(fields), int(fields.get(USES) or "0")
    except ValueError as error:
        raise TokenSpent("TokenUsedUp", f'token "{token}" cannot be counted ({error}): {_AGAIN}') from error


def _with(secret: JsonObject, used: dict[str, str]) -> JsonObject:
    encoded = base64.b64encode(json.dumps(used).encode()).decode()
    return {**secret, "data": {**secret["data"], USED: encoded}}
