"""Server discovery: each server of a store holds a Lease with its URLs, and all servers publish the endpoints of these.

A server judges the other Leases by the time it last saw them change, on its own clock. A Lease unchanged for its
duration belongs to a dead server: it is deleted, and its addresses are no longer published. A server that stops
withdraws its Lease at once; but the last addresses of all are never removed, since they may become valid again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from tarmac import __version__
from tarmac.agent.node.detectedaddresses import outgoing
from tarmac.api.identities import VERSION
from tarmac.api.rotations import TRUSTS
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Conflict, NotFound
from tarmac.apps.publishing import ServerAddress, publish
from tarmac.base.clock import rfc3339_micro
from tarmac.base.log import log
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import LEASES

INTERVAL: Final = 5.0
DURATION: Final = 15
MANAGER: Final = "tarmac-server"

_NAMESPACE: Final = "kube-system"
_LABELS: Final = {"apiserver.kubernetes.io/identity": "tarmac-server"}
_SELECTOR: Final = ",".join(f"{key}={value}" for key, value in _LABELS.items())
_WITHDRAW_TIMEOUT: Final = 2.0

_log = log("server")


def reached_at(hosts: Iterable[str]) -> list[str]:
    """Return the addresses that other hosts can reach, for a server that listens on these.

    For a wildcard address these are the source addresses of outgoing connections.
    """
    found: dict[str, None] = {}
    for host in hosts:
        if host in ("", "0.0.0.0", "::"):
            found |= dict.fromkeys(each for each in outgoing() if not host or (":" in each) == (":" in host))
        else:
            with suppress(ValueError):
                found |= {} if ip_address(host).is_loopback else {host: None}
    return list(found)


async def server_leases(client: Client, *, resource_version: str = "") -> list[JsonObject]:
    """Return the Leases of all announced servers. Raises ApiError, ClientError."""
    found = await client.resource(LEASES).list(_NAMESPACE, labels=_SELECTOR, resource_version=resource_version)
    return list(found.items)


class Announcement:
    """The announcement of one server, and its view of the other servers. Without `hosts` it announces nothing."""

    def __init__(
        self, client: Client, hosts: Sequence[str], port: int, trusted: Callable[[], Iterable[str]] = tuple[str]
    ) -> None:
        self._client = client
        self._trusted = trusted
        self._clock = client.clock
        self._leases = client.resource(LEASES)
        self._urls = " ".join(f"https://{_bracketed(host)}:{port}" for host in hosts)
        self._name = f"apiserver-{sha256(self._urls.encode()).hexdigest()[:16]}"
        self._seen: dict[str, tuple[str, float]] = {}  # by Lease: its renewTime, and the local time it was first seen

    async def announce(self) -> None:
        """Renew the Lease, if this server is reachable, and publish all servers. Raises ApiError, ClientError."""
        if self._urls:
            await self._leases.apply(self._lease(), manager=MANAGER)
        # A server that only its own host reaches still expires the Leases of other servers: it may be the only one
        # left, and key rotations wait for every server with a Lease.
        await self._publish([lease for lease in await self._listed() if await self._lives(lease)])

    async def withdraw(self) -> None:
        """Delete the Lease and stop publishing this server. Raises ApiError, ClientError."""
        if not self._urls:
            return
        with suppress(NotFound):
            await self._leases.delete(self._name, _NAMESPACE)
        await self._publish(await self._listed())

    async def run(self) -> None:
        """Announce until cancelled."""
        failing = False
        while True:
            await self._clock.sleep(INTERVAL)
            try:
                await self.announce()
                failing = False
            except (ApiError, ClientError) as error:
                write_log = _log.debug if failing else _log.warning
                write_log("server addresses cannot be announced, will retry", error=str(error))
                failing = True

    async def _listed(self) -> list[JsonObject]:
        # From the watch cache: slightly stale data does no harm here, and the read costs the store nothing.
        return await server_leases(self._client, resource_version="0")

    async def _lives(self, lease: JsonObject) -> bool:
        """Return True if a Lease's server is alive; delete the Lease of a dead one."""
        metadata, now = lease["metadata"], self._clock.monotonic()
        name, renewed = metadata["name"], lease["spec"].get("renewTime", "")
        known, at = self._seen.get(name, ("", now))
        if renewed != known:
            at = now
        self._seen[name] = renewed, at
        if name == self._name or now - at < lease["spec"].get("leaseDurationSeconds", DURATION):
            return True
        del self._seen[name]
        with suppress(NotFound, Conflict):  # a different server was faster, or it was renewed after all
            await self._leases.delete(name, _NAMESPACE, resource_version=metadata["resourceVersion"])
        _log.info("server lease expired", holder=lease["spec"].get("holderIdentity"))
        return False

    async def _publish(self, leases: Sequence[JsonObject]) -> None:
        places = {place for lease in leases for place in _places(lease)}
        if places:
            await publish(self._client, sorted(places), MANAGER)

    def _lease(self) -> JsonObject:
        notes = {VERSION: __version__, TRUSTS: " ".join(self._trusted())}
        metadata = {"name": self._name, "namespace": _NAMESPACE, "labels": _LABELS, "annotations": notes}
        spec = {
            "holderIdentity": self._urls,
            "leaseDurationSeconds": DURATION,
            "renewTime": rfc3339_micro(self._clock.now()),
        }
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}


@asynccontextmanager
async def announced(
    client: Client,
    hosts: Sequence[str],
    port: int,
    trusted: Callable[[], Iterable[str]] = tuple[str],
    leaves: Callable[[], bool] = lambda: True,
) -> AsyncGenerator[None]:
    """Announce these addresses during the block; withdraw them at its end if `leaves` returns True.

    `trusted`: ids of the keys that verify tokens here.
    """
    announcement = Announcement(client, hosts, port, trusted)
    await announcement.announce()
    try:
        async with background(announcement.run(), "announcement"):
            yield
    finally:
        try:
            async with asyncio.timeout(_WITHDRAW_TIMEOUT):
                if leaves():
                    await announcement.withdraw()
        except (ApiError, ClientError, TimeoutError) as error:
            _log.warning("server addresses cannot be withdrawn", error=str(error))


def _places(lease: JsonObject) -> list[ServerAddress]:
    """Return the addresses of a Lease; skip malformed ones."""
    found: list[ServerAddress] = []
    for url in lease["spec"].get("holderIdentity", "").split():
        with suppress(ValueError):
            parts = urlsplit(url)
            if parts.hostname and parts.port:
                found.append(ServerAddress(str(ip_address(parts.hostname)), parts.port))
    return found


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
