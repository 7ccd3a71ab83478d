"""Raises the format of a shared store after every server has supported the new one for a while.

Servers of two versions share an etcd during an upgrade, so data that only the newer can read must not be written before
the last older server is gone. Each server announces its version in its Lease. The first server that has seen the new
version on all of them for `STABLE_SECONDS` raises the format; of concurrent attempts one succeeds and the rest find it
done.
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

STABLE_SECONDS = 60.0
POLL_INTERVAL = 5.0
_log = log("store")


async def server_versions(client: Client) -> dict[str, str]:
    """Return the announced version of each server by its addresses; empty if it announces none."""
    return {
        lease["spec"].get("holderIdentity", ""): (lease["metadata"].get("annotations") or {}).get(VERSION, "")
        for lease in await server_leases(client)
    }


async def raise_format(client: Client, store: Store) -> None:
    """Wait and raise the format; return once the store has the newest."""
    clock, since = client.clock, None
    while True:
        try:
            now = clock.monotonic()
            since = (since or now) if all_are(__version__, await server_versions(client)) else None
            if since is not None and now - since >= STABLE_SECONDS:
                before, after = await store.raise_format()
                if before != after:
                    _log.info(f"store upgraded from format {before} to {after}")
                return
        except (ApiError, ClientError, Unavailable) as error:
            since = None
            _log.warning("store format cannot be raised yet, will retry", error=str(error))
        await clock.sleep(POLL_INTERVAL)
