"""The addresses of the API servers: the endpoints of the Service `default/kubernetes`, else the configured one.

A long-running client polls every minute and updates its transport, and stores the list for its next start, so that a
start does not depend on the one configured server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import ENDPOINT_SLICES

POLL_INTERVAL = 60.0


class KnownServers:
    """Caches the last list, for when no server responds."""

    def __init__(self, client: Client, configured: Callable[[], str]) -> None:
        self._slices = client.resource(ENDPOINT_SLICES)
        self._configured = configured
        self._found: list[str] = []

    async def __call__(self) -> Sequence[str]:
        """Return the URLs, in no particular order."""
        try:
            page = await self._slices.list("default", labels="kubernetes.io/service-name=kubernetes")
        except (ApiError, ClientError):  # unreachable, or forbidden
            return self._found or [self._configured()]
        self._found = [url for part in page.items for url in _urls(part)]
        return self._found or [self._configured()]


async def follow_servers(
    client: Client, first: str, known: Sequence[str], use: Callable[[list[str]], None]
) -> NoReturn:
    """Call `use` with all URLs whenever they differ from `known`; until cancelled.

    The configured URL stays the first, even if no server has it: it may be a DNS name or a load balancer.
    """
    servers, present = KnownServers(client, lambda: first), list(known)
    while True:
        found = list(dict.fromkeys([first, *sorted(await servers())]))
        # Only the first URL means that no server responded, or none is announced: the known list may still be right.
        if found != present and len(found) > 1:
            present = found
            use(found)
        await client.clock.sleep(POLL_INTERVAL)


def _urls(part: JsonObject) -> list[str]:
    ports = [each["port"] for each in part.get("ports") or () if each.get("name") == "https" and each.get("port")]
    addresses = [address for endpoint in part.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    shown = [f"[{address}]" if ":" in address else address for address in addresses]
    return [f"https://{address}:{port}" for address in shown for port in ports]
