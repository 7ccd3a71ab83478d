"""Labels each Secret of a service account token with the day of its last use."""

from __future__ import annotations

from typing import NoReturn

from tarmac.api.status import ApiError
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import SECRETS
from tarmac.server.security.tokens.tokenuses import LAST_USED, TokenUses

_MANAGER = "tarmac-server"
_log = log("server")


async def label_used_tokens(client: Client, uses: TokenUses) -> NoReturn:
    """Run until cancelled. A failed write is repeated at the token's next use."""
    secrets = client.resource(SECRETS)
    while True:
        holder, day = await uses.next()
        patch = {"metadata": {"labels": {LAST_USED: day}}}
        try:
            await secrets.patch(holder.secret, patch, holder.namespace, manager=_MANAGER, uid=holder.secret_uid)
        except (ApiError, ClientError) as error:
            _log.debug("token use cannot be recorded", secret=f"{holder.namespace}/{holder.secret}", why=str(error))
