"""Which authorities vouch for the servers of a cluster: others when they are rotated, while clients run.

Whoever lives long asks every minute, over a connection that is verified by what it knows so far, and keeps what it
found where its next start finds it. A server that is not Tarmac's has no answer, and what is known stays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from tarmac.api.nodetokens import AUTHORITIES_PATH
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.http.bundles import certificates_in

EVERY = 60.0


async def shown_authorities(client: Client) -> AsyncIterator[str]:
    """What the server shows (PEM, first the one that signs), each time that it is asked, until cancelled."""
    while True:
        try:
            shown = (await client.call("GET", AUTHORITIES_PATH, headers={"accept": "*/*"})).body.decode()
        except (ApiError, ClientError, ValueError):  # away, or not one of ours
            shown = ""
        if certificates_in(shown):
            yield shown
        await client.clock.sleep(EVERY)
