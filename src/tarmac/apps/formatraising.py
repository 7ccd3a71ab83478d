"""The format of a shared store is raised when every server has read the newer one for a while.

Servers of two versions share an etcd during an upgrade, so what only the newer reads must not be written before the
last of the older has gone. Each server says in its Lease which version it is. Whoever sees first that all have had the
newer one for `STEADY` raises the format; of several who try at once, one succeeds and the others find it done.
"""

from __future__ import annotations

from tarmac import __version__
from tarmac.api.identities import VERSION
from tarmac.api.status import ApiError
from tarmac.apps.serverleases import server_leases
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.decide.versions import all_are
from tarmac.store.interface import Store, Unavailable

STEADY = 60.0
LOOK = 5.0
_log = log("store")


async def server_versions(client: Client) -> dict[str, str]:
    """By the addresses of each server: the version that it says it has, empty if it says none."""
    return {
        lease["spec"].get("holderIdentity", ""): (lease["metadata"].get("annotations") or {}).get(VERSION, "")
        for lease in await server_leases(client)
    }


async def raise_format(client: Client, store: Store) -> None:
    """Until the store has the newest format."""
    clock, since = client.clock, None
    while True:
        try:
            now = clock.monotonic()
            since = (since or now) if all_are(__version__, await server_versions(client)) else None
            if since is not None and now - since >= STEADY:
                before, after = await store.raise_format()
                if before != after:
                    _log.info(f"store upgraded from format {before} to {after}")
                return
        except (ApiError, ClientError, Unavailable) as error:
            since = None
            _log.warning("the format of the store is not raised yet", error=str(error))
        await clock.sleep(LOOK)
