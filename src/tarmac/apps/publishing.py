"""Publishes the endpoints of the Service `default/kubernetes`: EndpointSlices per family and port, and Endpoints.

The slices of the first port have the same names as in Kubernetes. Unchanged objects are not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.client.client import Client
from tarmac.client.targets.untyped import ENDPOINT_SLICES, ENDPOINTS

NAME: Final = "kubernetes"
_NAMESPACE: Final = "default"
_FURTHER: Final = f"{NAME}-ipv"
_SERVICE: Final = "kubernetes.io/service-name"
# The Service has its own slices; mirrored ones would duplicate the endpoints.
_NOT_MIRRORED: Final = {"endpointslice.kubernetes.io/skip-mirror": "true"}


class ServerAddress(NamedTuple):
    """Address and port of a server."""

    address: str
    port: int


async def publish(client: Client, places: Sequence[ServerAddress], manager: str) -> None:
    """Make these the only endpoints of the Service. Raises ApiError, ClientError."""
    wanted = _slices(places)
    slices, endpoints = client.resource(ENDPOINT_SLICES), client.resource(ENDPOINTS)
    listed = await slices.list(_NAMESPACE, labels=f"{_SERVICE}={NAME}")
    known = {each["metadata"]["name"]: each for each in listed.items}
    for name, each in wanted.items():
        if name not in known or _behind_slice(known[name]) != _behind_slice(each):
            await slices.apply(each, manager=manager)
    for name in known.keys() - wanted.keys():
        if name == NAME or name.startswith(_FURTHER):
            await slices.delete(name, _NAMESPACE)
    try:
        found = await endpoints.get(NAME, _NAMESPACE)
        labels = found["metadata"].get("labels") or {}
        right = _behind_endpoints(found) == set(places) and labels.items() >= _NOT_MIRRORED.items()
    except NotFound:
        right = False
    if not right:
        await endpoints.apply(_endpoints(places), manager=manager)


def _slices(places: Sequence[ServerAddress]) -> Mapping[str, JsonObject]:
    found: dict[str, JsonObject] = {}
    ports = sorted({place.port for place in places})
    for port in ports:
        for family in (4, 6):
            own = [each.address for each in places if each.port == port and (":" in each.address) == (family == 6)]
            if own:
                name = (NAME if family == 4 else f"{_FURTHER}6") if port == ports[0] else f"{_FURTHER}{family}-{port}"
                found[name] = _object(
                    ENDPOINT_SLICES.api_version,
                    ENDPOINT_SLICES.kind,
                    name,
                    addressType=f"IPv{family}",
                    endpoints=[{"addresses": [address], "conditions": {"ready": True}} for address in own],
                    ports=[_port(port)],
                )
                found[name]["metadata"]["labels"] = {_SERVICE: NAME}
    return found


def _endpoints(places: Sequence[ServerAddress]) -> JsonObject:
    subsets = [
        {"addresses": [{"ip": each.address} for each in places if each.port == port], "ports": [_port(port)]}
        for port in sorted({place.port for place in places})
    ]
    made = _object(ENDPOINTS.api_version, ENDPOINTS.kind, NAME, subsets=subsets)
    made["metadata"]["labels"] = _NOT_MIRRORED
    return made


def _behind_slice(part: JsonObject) -> set[ServerAddress]:
    addresses = [address for each in part.get("endpoints") or () for address in each["addresses"]]
    return {ServerAddress(address, port["port"]) for address in addresses for port in part.get("ports") or ()}


def _behind_endpoints(endpoints: JsonObject) -> set[ServerAddress]:
    return {
        ServerAddress(address["ip"], port["port"])
        for subset in endpoints.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    }


def _object(api_version: str, kind: str, name: str, **content: object) -> JsonObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": _NAMESPACE},
        **content,
    }


def _port(number: int) -> JsonObject:
    return {"name": "https", "port": number, "protocol": "TCP"}
