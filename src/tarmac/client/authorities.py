"""Follows the CA certificates of a cluster, which change when they are rotated while clients run.

A long-running client polls every minute, over a connection verified by the CAs it knows so far, and stores them for its
next start. A server other than Tarmac's has no such endpoint, and the known CAs stay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from tarmac.api.nodetokens import AUTHORITIES_PATH
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.http.bundles import certificates_in

POLL_INTERVAL = 60.0


async def shown_authorities(client: Client) -> AsyncIterator[str]:
    """Yield the server's CA bundle (PEM, the signing CA first) at each poll, until cancelled."""
    while True:
        try:
            shown = (await client.call("GET", AUTHORITIES_PATH, headers={"accept": "*/*"})).body.decode()
        except (ApiError, ClientError, ValueError):  # unreachable, or not a Tarmac server
            shown = ""
        if certificates_in(shown):
            yield shown
        await client.clock.sleep(POLL_INTERVAL)
