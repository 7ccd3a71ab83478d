"""The objects of `tarmac up --outside` for connections from outside: pools of addresses, and the routers as BGPPeers.

Pools are created once, so that changes by users stay. Peers follow the segment, which may differ at each start.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import IPv4Network
from typing import Final

from tarmac.api.checks import mapping
from tarmac.api.ingress.names import API_VERSION, PASSWORD_KEY, SECRET_NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, NotFound
from tarmac.apps.cities.outsiderouters import NODE_ASN
from tarmac.client.client import Client
from tarmac.client.targets.untyped import ADDRESS_POOLS, BGP_PEERS, SECRETS
from tarmac.datapath.hosts import Neighborhood
from tarmac.datapath.linux.ingress.speakerconfig import is_password

ANYCAST_RANGES: Final = {4: "203.0.113.0/24", 6: "2001:db8:113::/64"}
"""Addresses of Workloads, reserved for documentation."""

_FIELD_MANAGER: Final = "tarmac-up"
_SECRET: Final = "outside-routers"
_FIRST, _PREFIX_LENGTH = 64, 26  # of the segment's addresses for Services
# Short: after an example is deleted, the next attempt gets the same addresses.
_HOLD_DOWN: Final = "10s"


async def router_password(client: Client) -> str:
    """Return the password of the sessions with the routers; without one, a new Secret has it."""
    secrets = client.resource(SECRETS)
    try:
        data = mapping(await secrets.get(_SECRET, SECRET_NAMESPACE), "data")
        found = base64.b64decode(data.get(PASSWORD_KEY, "")).decode()
    except NotFound:
        found = ""
    if is_password(found):
        return found
    made = client.randomness.randbytes(16).hex()
    metadata = {"name": _SECRET, "namespace": SECRET_NAMESPACE}
    wanted = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {PASSWORD_KEY: made}}
    await secrets.apply(wanted, manager=_FIELD_MANAGER)
    return made


async def offer_addresses(client: Client, places: Sequence[Neighborhood]) -> None:
    """Create the pools, and the peers of every city's node."""
    for pool in public_pools(places[0]):
        with suppress(AlreadyExists):
            await client.resource(ADDRESS_POOLS).create(pool, manager=_FIELD_MANAGER)
    for place in places:
        await client.resource(BGP_PEERS).apply(router_peer(place), manager=_FIELD_MANAGER)


def public_pools(place: Neighborhood) -> Iterator[JsonObject]:
    """Yield the pool `public` of the segment, and the pool `anycast` behind the routers.

    Clients behind any router get answers of the segment's addresses through the router of `place`.
    """
    whole = place.segment.subnets[0]
    part = IPv4Network((int(whole[_FIRST]), _PREFIX_LENGTH))
    yield _pool("public", [str(part)], subnet={"prefixLength": whole.prefixlen, "gateway": place.addresses[0]})
    yield _pool("anycast", [ANYCAST_RANGES[family] for family in place.families], scope="Anycast")


def router_peer(place: Neighborhood) -> JsonObject:
    """Return the BGPPeer of a city's router."""
    spec = {
        "address": place.addresses[0],
        "asn": place.asn,
        "localASN": NODE_ASN,
        "families": [f"IPv{family}" for family in place.families],
        "locations": [place.city.name],
        "passwordSecret": _SECRET,
    }
    return {"apiVersion": API_VERSION, "kind": "BGPPeer", "metadata": {"name": place.router.name}, "spec": spec}


def _pool(name: str, ranges: Sequence[str], **more: object) -> JsonObject:
    everyone: JsonObject = {"selector": {}}
    spec = {"ranges": [{"cidr": each} for each in ranges], "allowedNamespaces": everyone, "holdDown": _HOLD_DOWN}
    return {"apiVersion": API_VERSION, "kind": "AddressPool", "metadata": {"name": name}, "spec": {**spec, **more}}
