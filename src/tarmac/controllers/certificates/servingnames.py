"""Checks that the names of a serving certificate belong to the node, regardless of its status.

Addresses of nodes and Services come from caches; those of the API server are read for each request, since each node
sends one a year.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.client.cache import Item
from tarmac.client.targets.untyped import ENDPOINT_SLICES, NODES, SERVICES
from tarmac.controllers.certificates.requests import CertificateRequest
from tarmac.controllers.context import ControllerContext
from tarmac.decide.nodeaddresses import (
    LABEL_CONTROL_PLANE,
    address_objection,
    canonical,
    name_objection,
    read_addresses,
)

_BY_ADDRESS = "address"


class _Spec(msgspec.Struct, rename={"cluster": "clusterIPs"}):
    cluster: list[str] | None = None


class _Service(msgspec.Struct):
    spec: _Spec | None = None


_read_service = msgspec.json.Decoder(_Service).decode


def _addresses_of_node(item: Item[Any]) -> Iterable[str]:
    return {_plain(each.address) for each in read_addresses(item.raw)}


def _addresses_of_service(item: Item[Any]) -> Iterable[str]:
    spec = _read_service(item.raw).spec
    return {_plain(each) for each in (spec.cluster if spec else None) or ()}


def _plain(text: str) -> str:
    address = canonical(text)
    return text if address is None else str(address)


class _Others(NamedTuple):
    """The nodes, Services and API servers, except one node."""

    holders: NameOwners
    node: str
    servers: frozenset[str]

    def have(self, identity: str) -> str | None:
        """Return a phrase naming the owner of a name or an address, or None."""
        if identity in self.servers:
            return "the API server's"
        return (
            self.holders.name(self.node, identity)
            if canonical(identity) is None
            else self.holders.address(self.node, identity)
        )


class NameOwners:
    """Owners of names and addresses."""

    def __init__(self, context: ControllerContext) -> None:
        self.nodes = context.informers.informer(NODES)
        self.services = context.informers.informer(SERVICES)
        self.nodes.add_index(_BY_ADDRESS, _addresses_of_node)
        self.services.add_index(_BY_ADDRESS, _addresses_of_service)
        self._slices = context.client.resource(ENDPOINT_SLICES)

    async def objection(self, request: CertificateRequest, node: JsonObject) -> str | None:
        """Return the reason why the node may not serve under the requested names, or None."""
        beside_server = LABEL_CONTROL_PLANE in (node["metadata"].get("labels") or {})
        # A node beside a server has the API server's addresses itself.
        have = _Others(self, request.node, frozenset() if beside_server else await self._servers()).have
        names = [name_objection(request.node, each, have) for each in sorted(request.names.dns)]
        addresses = [address_objection(each, have) for each in sorted(request.names.addresses)]
        return next((why for why in (*names, *addresses) if why is not None), None)

    def address(self, node: str, address: str) -> str | None:
        """Return the owner of an address other than `node`, or None."""
        for item in self.services.indexed(_BY_ADDRESS, address):
            return f"that of Service {item.key}"
        others = sorted(item.key for item in self.nodes.indexed(_BY_ADDRESS, address) if item.key != node)
        return f'that of node "{others[0]}"' if others else None

    def name(self, node: str, name: str) -> str | None:
        """Return the owner of a name other than `node`, or None."""
        if name != node and self.nodes.get(name) is not None:
            return "another node's"
        service, _, namespace = name.partition(".")
        found = namespace and self.services.get(f"{namespace}/{service}") is not None
        return f"that of Service {namespace}/{service}" if found else None

    async def _servers(self) -> frozenset[str]:
        found = await self._slices.list("default", labels="kubernetes.io/service-name=kubernetes")
        endpoints = [each for part in found.items for each in part.get("endpoints") or ()]
        return frozenset(_plain(address) for each in endpoints for address in each.get("addresses") or ())
