"""Where the API servers are: every address behind the Service `default/kubernetes`, else the one we were told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import ENDPOINT_SLICES


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


def _urls(part: JsonObject) -> list[str]:
    ports = [each["port"] for each in part.get("ports") or () if each.get("name") == "https" and each.get("port")]
    addresses = [address for endpoint in part.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    shown = [f"[{address}]" if ":" in address else address for address in addresses]
    return [f"https://{address}:{port}" for address in shown for port in ports]
