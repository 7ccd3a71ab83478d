"""Public addresses on simulated nodes: gateways announce by routes, and clients outside take the nearest route.

Gateways decide with the functions of real agents. The cities are in a row, in the order of the scenario: the distance
of two is the number of steps between them. A gateway that loses its connection keeps its routes for the hold time of
BGP, and packets that take them are lost. A node that receives no changes keeps its last decisions. Addresses of
segments, which need leases, are not announced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from zlib import crc32

import msgspec

from tarmac.api.checks import mapping
from tarmac.api.compute.names import LABEL_WORKLOAD_UID
from tarmac.api.declare import decoder
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.names import API_VERSION, LABEL_ADDRESS
from tarmac.api.ingress.publicaddress import HolderReference, PublicAddress
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.base.clock import rfc3339
from tarmac.client.client import Client
from tarmac.client.feed import Kept
from tarmac.client.reflector import Reflector
from tarmac.client.targets.typed import ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES
from tarmac.client.targets.untyped import ENDPOINT_SLICES, NODES, SERVICES
from tarmac.decide.ingress.binding import holders
from tarmac.decide.ingress.pools import ESTABLISHED
from tarmac.decide.ingress.selecting import has_session, is_announced_to, is_gateway
from tarmac.decide.ingress.slots import SLOTS, slots
from tarmac.decide.ingress.targets import (
    ANYCAST,
    LOCAL,
    GatewayState,
    IngressEndpoint,
    Leads,
    ingress_endpoints,
    silence,
    weights,
)
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.simulatednode import SimulatedNode

T = TypeVar("T")

HOLD_TIME: Final = 9.0
_INTERVAL: Final = 0.5
_SERVICE_NAME: Final = "kubernetes.io/service-name"

_plain = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class _Gateway:
    """The decisions of one gateway. `seen_at`: when it was connected last."""

    announced: set[str] = field(default_factory=set[str])
    shares: dict[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    peers: list[str] = field(default_factory=list[str])
    seen_at: float = 0.0


class SimIngress:
    """The part of all nodes of a process in public addresses. `broken` has the violated invariants."""

    def __init__(self, client: Client, fleet: SimulatedNodes) -> None:
        self._client, self._fleet, self._clock = client, fleet, client.clock
        self._order = [place.name for place in fleet.places]
        self._addresses, self._pools = _kept(decoder(PublicAddress)), _kept(decoder(AddressPool))
        self._peers, self._services = _kept(decoder(BGPPeer)), _kept(_plain)
        self._slices, self._nodes = _kept(_plain), _kept(_plain)
        self._gateways: dict[str, _Gateway] = {}
        self._written: dict[tuple[str, str], JsonObject] = {}
        self._address_resource = client.resource(PUBLIC_ADDRESSES.unread)
        self._peer_resource = client.resource(BGP_PEERS.unread)
        self.broken: list[str] = []

    async def run(self) -> None:
        """Run until cancelled."""
        watched = (
            (PUBLIC_ADDRESSES, self._addresses),
            (ADDRESS_POOLS, self._pools),
            (BGP_PEERS, self._peers),
            (SERVICES, self._services),
            (ENDPOINT_SLICES, self._slices),
            (NODES, self._nodes),
        )
        async with asyncio.TaskGroup() as group:
            for target, sink in watched:
                group.create_task(Reflector(self._client, target, sink).run())
            group.create_task(self._decide())

    def answering(self, city: str, address: str) -> str:
        """Return the Location of the pod that answers a client near a city; empty if no pod does."""
        routes = [name for name, each in sorted(self._gateways.items()) if address in each.announced]
        routes = [name for name in routes if self._is_live(name)]
        if not routes:
            return ""
        hashed = crc32(f"near-{city} {address}".encode())
        nearest = min(self._distance(city, self._place(name)) for name in routes)
        near = [name for name in routes if self._distance(city, self._place(name)) == nearest]
        gateway = near[hashed % len(near)]
        table = slots(self._gateways[gateway].shares.get(address, {}))
        # Packets of a route that ends late are lost at a gateway without a connection, and at a node without power.
        if not table or not self._is_connected(gateway):
            return ""
        node = table[hashed % SLOTS]
        return self._place(node) if self._is_connected(node) else ""

    def _is_live(self, gateway: str) -> bool:
        return self._clock.monotonic() - self._gateways[gateway].seen_at < HOLD_TIME

    def _is_connected(self, node: str) -> bool:
        known = self._fleet.nodes[node]
        return known.alive and known.reachable

    def _place(self, node: str) -> str:
        return self._fleet.nodes[node].place.name

    def _distance(self, one: str, other: str) -> float:
        return abs(self._order.index(one) - self._order.index(other))

    async def _decide(self) -> None:
        while True:
            for name, node in self._fleet.nodes.items():
                if node.hears and self._addresses.by_key:
                    self._pass(name, node)
            self._compare()
            for name in sorted(self._gateways):
                if self._is_connected(name):
                    self._gateways[name].seen_at = self._clock.monotonic()
                if self._fleet.nodes[name].hears:
                    await self._report(name)
            await self._clock.sleep(_INTERVAL)

    def _pass(self, name: str, node: SimulatedNode) -> None:
        """Decide the announcements of a node, and the distribution of its connections."""
        own = self._nodes.by_key.get(name, {})
        labels = mapping(own, "metadata", "labels")
        cordoned = bool(mapping(own, "spec").get("unschedulable"))
        state = GatewayState(name, node.place.name, draining=cordoned)
        found = _Gateway(seen_at=self._clock.monotonic())
        found.peers = sorted(key for key, each in self._peers.by_key.items() if has_session(each.spec, labels))
        for address in self._addresses.by_key.values():
            pool = self._pools.by_key.get(address.spec.pool_name)
            if pool is None or not is_gateway(pool.spec, labels) or not self._has_peer(pool, found.peers):
                continue
            for holder in holders(address):
                leads, ends = self._leads(holder), self._endpoints(holder)
                value, near = address.spec.address, node.place.name
                found.shares[value] = weights(leads, name, near, ends, lambda city: self._distance(near, city))  # noqa: B023
                if not silence(leads, state, ends):
                    found.announced.add(value)
                    self._check_announcement(name, value, ends)
        if found.peers or found.shares or name in self._gateways:
            self._gateways[name] = found

    def _has_peer(self, pool: AddressPool, peers: Iterable[str]) -> bool:
        known = (self._peers.by_key[each] for each in peers)
        return any(is_announced_to(pool.metadata.name, pool.spec, each.spec) for each in known)

    def _leads(self, holder: HolderReference) -> Leads:
        if holder.kind == "Workload":
            return ANYCAST
        spec = mapping(self._services.by_key.get(f"{holder.namespace}/{holder.name}", {}), "spec")
        return LOCAL if spec.get("externalTrafficPolicy") == "Local" else "Cluster"

    def _endpoints(self, holder: HolderReference) -> list[IngressEndpoint]:
        mine = [self._slices.by_key[key] for key in sorted(self._slices.by_key)]
        return ingress_endpoints((each for each in mine if _is_of(each, holder)), self._place)

    def _check_announcement(self, gateway: str, address: str, ends: Iterable[IngressEndpoint]) -> None:
        if not any(each.ready or each.serving for each in ends):
            self.broken.append(f"{gateway} announces {address} without an endpoint")

    def _compare(self) -> None:
        """Check that gateways of one city share out connections alike."""
        seen: dict[tuple[str, str], tuple[str, Mapping[str, int]]] = {}
        for name in sorted(self._gateways):
            if not self._fleet.nodes[name].hears:
                continue
            for address, shares in self._gateways[name].shares.items():
                other, known = seen.setdefault((self._place(name), address), (name, shares))
                if slots(known) != slots(shares) and not self._is_local(address):
                    self.broken.append(f"{name} and {other} share out {address} in different ways")

    def _is_local(self, value: str) -> bool:
        mine = (each for each in self._addresses.by_key.values() if each.spec.address == value)
        return any(self._leads(holder) == LOCAL for each in mine for holder in holders(each))

    async def _report(self, name: str) -> None:
        own = self._gateways[name]
        for key, address in sorted(self._addresses.by_key.items()):
            value = address.spec.address
            if value in own.shares:
                entry: JsonObject = {"location": self._place(name), "announcing": value in own.announced}
                entry |= {"via": ",".join(own.peers)} if value in own.announced else {}
                await self._write(self._address_resource, "PublicAddress", key, name, entry)
        for peer in own.peers:
            entry = {"state": ESTABLISHED, "announced": len(own.announced)}
            await self._write(self._peer_resource, "BGPPeer", peer, name, entry)

    async def _write(self, resource: Any, kind: str, key: str, node: str, entry: JsonObject) -> None:
        if self._written.get((key, node)) == entry:
            return
        since = rfc3339(self._clock.now())
        status = {"nodes": [{"name": node, "since": since, **entry}]}
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": key}, "status": status}
        with suppress(NotFound, Conflict):
            await resource.apply(body, manager=f"node-{node}", subresource="status")
            self._written[key, node] = entry


def _kept(read: Callable[[Any], T]) -> Kept[T]:
    return Kept(lambda change: read(change.raw), lambda *_: None)


def _is_of(each: JsonObject, holder: HolderReference) -> bool:
    metadata = each["metadata"]
    labels = metadata.get("labels") or {}
    if metadata["namespace"] != holder.namespace:
        return False
    if holder.kind == "Workload":
        return LABEL_ADDRESS in labels and labels.get(LABEL_WORKLOAD_UID) == holder.uid
    return labels.get(_SERVICE_NAME) == holder.name
