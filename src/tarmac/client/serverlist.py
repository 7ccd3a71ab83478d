"""Where the API servers are: every address behind the Service `default/kubernetes`, else the one we were told.

Whoever lives long asks every minute and tells its transport, and keeps what it found where its next start finds it, so
that a start does not hang on the one server that it was told of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import ENDPOINT_SLICES

EVERY = 60.0


class KnownServers:
    """Remembers what it found, for when nobody can be asked."""

    def __init__(self, client: Client, told: Callable[[], str]) -> None:
        self._slices = client.resource(ENDPOINT_SLICES)
        self._told = told
        self._found: list[str] = []

    async def __call__(self) -> Sequence[str]:
        """URLs, in no particular order."""
        try:
            page = await self._slices.list("default", labels="kubernetes.io/service-name=kubernetes")
        except (ApiError, ClientError):  # away, or not for our eyes
            return self._found or [self._told()]
        self._found = [url for part in page.items for url in _urls(part)]
        return self._found or [self._told()]


async def follow_servers(
    client: Client, first: str, known: Sequence[str], use: Callable[[list[str]], None]
) -> NoReturn:
    """Have `use` called with all URLs whenever they are others than those `known`; until cancelled.

    The one that was told stays the first, also where it is no server's own: a name, or what stands in front of them.
    """
    servers, present = KnownServers(client, lambda: first), list(known)
    while True:
        found = list(dict.fromkeys([first, *sorted(await servers())]))
        # Nothing but the first means that nobody could be asked, or nobody is announced: what is known may be right.
        if found != present and len(found) > 1:
            present = found
            use(found)
        await client.clock.sleep(EVERY)


def _urls(part: JsonObject) -> list[str]:
    ports = [each["port"] for each in part.get("ports") or () if each.get("name") == "https" and each.get("port")]
    addresses = [address for endpoint in part.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    shown = [f"[{address}]" if ":" in address else address for address in addresses]
    return [f"https://{address}:{port}" for address in shown for port in ports]
