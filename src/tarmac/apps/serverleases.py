"""Where the servers of one store are: each holds a Lease under its URLs, and all of them publish what those say.

A server judges the Leases of the others by when *it* last saw them change, on its own clock. One that has not changed
for as long as it says has lost its server: the Lease is removed, and its addresses are published no longer. A server
that stops withdraws its own at once; but the last addresses of all are never taken away, for they may be right again.
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
from tarmac.agent.node.addresses import outgoing
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

EVERY: Final = 5.0
DURATION: Final = 15
MANAGER: Final = "tarmac-server"

_NAMESPACE: Final = "kube-system"
_LABELS: Final = {"apiserver.kubernetes.io/identity": "tarmac-server"}
_SELECTOR: Final = ",".join(f"{key}={value}" for key, value in _LABELS.items())
_LAST_WORDS: Final = 2.0

_log = log("server")


def reached_at(hosts: Iterable[str]) -> list[str]:
    """Where others than this machine reach a server that listens on these addresses.

    One that listens everywhere is reached where the machine would go out.
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
    """Those of every server that is announced. Raises ApiError, ClientError."""
    found = await client.resource(LEASES).list(_NAMESPACE, labels=_SELECTOR, resource_version=resource_version)
    return list(found.items)


class Announcement:
    """One server's word to the others, and what it hears of them. It is reached at `hosts`; nowhere says nothing."""

    def __init__(
        self, client: Client, hosts: Sequence[str], port: int, trusted: Callable[[], Iterable[str]] = tuple[str]
    ) -> None:
        self._client = client
        self._trusted = trusted
        self._clock = client.clock
        self._leases = client.resource(LEASES)
        self._urls = " ".join(f"https://{_bracketed(host)}:{port}" for host in hosts)
        self._name = f"apiserver-{sha256(self._urls.encode()).hexdigest()[:16]}"
        self._seen: dict[str, tuple[str, float]] = {}  # by Lease: when it says it was renewed, and when we saw that

    async def announce(self) -> None:
        """Renew our Lease, if there is to be one, and publish where everybody is. Raises ApiError, ClientError."""
        if self._urls:
            await self._leases.apply(self._lease(), manager=MANAGER)
        # A server that only its own machine reaches looks after the others' all the same: it may be the only one left,
        # and rotations of keys wait for every server that has a Lease.
        await self._publish([lease for lease in await self._listed() if await self._lives(lease)])

    async def withdraw(self) -> None:
        """Let nobody be sent here any more. Raises ApiError, ClientError."""
        if not self._urls:
            return
        with suppress(NotFound):
            await self._leases.delete(self._name, _NAMESPACE)
        await self._publish(await self._listed())

    async def run(self) -> None:
        """Announce until cancelled."""
        failing = False
        while True:
            await self._clock.sleep(EVERY)
            try:
                await self.announce()
                failing = False
            except (ApiError, ClientError) as error:
                tell = _log.debug if failing else _log.warning
                tell("the server's addresses are not announced", error=str(error))
                failing = True

    async def _listed(self) -> list[JsonObject]:
        # As this server has them: a moment behind the others is as good as asked for a moment earlier, and costs the
        # store nothing.
        return await server_leases(self._client, resource_version="0")

    async def _lives(self, lease: JsonObject) -> bool:
        """Whether a Lease's server does; one that does not is forgotten with it."""
        metadata, now = lease["metadata"], self._clock.monotonic()
        name, renewed = metadata["name"], lease["spec"].get("renewTime", "")
        known, at = self._seen.get(name, ("", now))
        if renewed != known:
            at = now
        self._seen[name] = renewed, at
        if name == self._name or now - at < lease["spec"].get("leaseDurationSeconds", DURATION):
            return True
        del self._seen[name]
        with suppress(NotFound, Conflict):  # somebody else was faster, or it was renewed after all
            await self._leases.delete(name, _NAMESPACE, resource_version=metadata["resourceVersion"])
        _log.info("a server has gone", holder=lease["spec"].get("holderIdentity"))
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
    """Be known at these addresses while the block lasts, and on if the server does not leave them with it.

    `trusted`: ids of the keys whose tokens are taken here.
    """
    announcement = Announcement(client, hosts, port, trusted)
    await announcement.announce()
    try:
        async with background(announcement.run(), "announcement"):
            yield
    finally:
        try:
            async with asyncio.timeout(_LAST_WORDS):
                if leaves():
                    await announcement.withdraw()
        except (ApiError, ClientError, TimeoutError) as error:
            _log.warning("the server's addresses are not withdrawn", error=str(error))


def _places(lease: JsonObject) -> list[ServerAddress]:
    """The addresses that a Lease announces; what cannot be read announces nothing."""
    found: list[ServerAddress] = []
    for url in lease["spec"].get("holderIdentity", "").split():
        with suppress(ValueError):
            parts = urlsplit(url)
            if parts.hostname and parts.port:
                found.append(ServerAddress(str(ip_address(parts.hostname)), parts.port))
    return found


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
