"""The objects that public addresses on this node depend on, from the API server or, while it is away, a checkpoint.

The checkpoint holds what the rules were last compiled from, so an agent that starts without the server computes the
state that the kernel has, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from tarmac.agent.egress.leases.checkpoint import replace_file
from tarmac.agent.ingress.compiling import IngressObjects
from tarmac.agent.ingress.servicefacts import (
    IngressService,
    OwnNode,
    Place,
    holder_key,
    read_service,
    references,
    slice_key,
)
from tarmac.api.checks import mapping
from tarmac.api.declare import decoder
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.api.schema import JsonObject
from tarmac.base.log import log
from tarmac.client.cache import Item
from tarmac.client.feed import Feed, Kept
from tarmac.client.informer import Informers
from tarmac.client.targets.target import Target
from tarmac.client.targets.typed import ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES
from tarmac.client.targets.untyped import ENDPOINT_SLICES, NODES, PODS, SERVICES, TUNNEL_ENDPOINTS
from tarmac.client.watch import Change
from tarmac.decide.ingress.selftests import passing_gateways
from tarmac.decide.reach.members import NetworkPod, member_of
from tarmac.decide.reach.partialobjects import SliceFacts, decode_slice

T = TypeVar("T")

_log = log("ingress")


class IngressCheckpoint(msgspec.Struct):
    """Content of the checkpoint."""

    addresses: list[PublicAddress] = []
    pools: dict[str, AddressPool] = {}
    services: dict[str, IngressService] = {}
    slices: list[SliceFacts] = []
    endpoints: dict[str, TunnelEndpoint] = {}
    places: list[Place] = []
    peers: dict[str, BGPPeer] = {}
    node: OwnNode = OwnNode()
    passwords: dict[str, str] = {}


_read = msgspec.json.Decoder(IngressCheckpoint).decode


class IngressObjectSource:
    """Watches these objects and calls `changed` whenever some of them may differ."""

    def __init__(self, informers: Informers, node: str, path: Path, changed: Callable[[], None]) -> None:
        self._path, self._changed, self._feeds = path, changed, list[Feed]()
        self._saved = b""  # digest of the checkpoint's content
        self._used: set[str] = set()  # keys of Services and Workloads that hold addresses

        def kept(
            target: Target[Any],
            read: Callable[[bytes], T | None],
            on_change: Callable[[str, T | None, T | None], None] = lambda *_: changed(),
        ) -> Kept[T]:
            sink = Kept[T](lambda change: read(change.raw), on_change)
            feed = informers.feed(target)
            feed.add(sink)
            self._feeds.append(feed)
            return sink

        # The status of an address is this node's own word and that of others: rules do not depend on it.
        self._addresses = kept(PUBLIC_ADDRESSES, _without_status)
        self._passing = kept(PUBLIC_ADDRESSES, _passing)
        self._pools = kept(ADDRESS_POOLS, _without_pool_status)
        self._peers = kept(BGP_PEERS, _without_peer_status)
        self._services = kept(SERVICES, read_service)
        self._slices = kept(ENDPOINT_SLICES, _held_slice, self._slice_changed)
        self._endpoints = kept(TUNNEL_ENDPOINTS, decoder(TunnelEndpoint), self._endpoint_changed)
        self._own_pods = informers.informer(PODS, fields=f"spec.nodeName={node}")
        self._pods = Kept[NetworkPod](lambda change: member_of(change.raw), self._pod_changed)
        self._own_pods.on_change(self._forward)
        self._own_node, self._node = informers.informer(NODES, fields=f"metadata.name={node}"), OwnNode()
        self._own_node.on_change(self._node_changed)

    @property
    def passing(self) -> Mapping[str, frozenset[str]]:
        """The gateways of each address that report no obstacle; none while the server has not answered yet."""
        return {each.address: each.nodes for each in self._passing.by_key.values()}

    @property
    def synced(self) -> bool:
        """True if all watches have a complete state."""
        return all(each.has_synced for each in (*self._feeds, self._own_pods, self._own_node))

    async def wait(self) -> None:
        """Wait until all watches have a complete state."""
        for each in (*self._feeds, self._own_pods, self._own_node):
            await each.synced()

    def current(self) -> IngressObjects:
        """Return the objects as the server has them."""
        addresses = [self._addresses.by_key[key] for key in sorted(self._addresses.by_key)]
        pools, peers = dict(self._pools.by_key), dict(self._peers.by_key)
        doors = {key: each.metadata.namespace for key, each in self._services.by_key.items() if each.has_node_ports}
        if not addresses and not pools and not peers and not doors:
            self._used = set()
            return IngressObjects()
        held = [each for address in addresses for each in references(address)]
        # From the same objects as the rules: changes of slices and pods are compared with it until the next pass.
        self._used = {*doors, *(holder_key(each) for each in held)}
        services = {key: each for key, each in self._services.by_key.items() if key in self._used}
        slices = [each for each in self._slices.by_key.values() if slice_key(each) in self._used]
        namespaces = {*doors.values(), *(each.namespace for each in held)}
        places = {
            (pod.namespace, own.network, address.partition("/")[0])
            for pod in self._pods.by_key.values()
            if pod.namespace in namespaces
            for own in pod.interfaces
            for address in own.addresses
        }
        ends = dict(self._endpoints.by_key)
        return IngressObjects(addresses, pools, services, slices, ends, places, peers, self._node)

    def load_checkpoint(self) -> IngressObjects:
        """Return the objects of the checkpoint; empty if there is none."""
        try:
            found = _read(self._path.read_bytes())
        except FileNotFoundError:
            return IngressObjects()
        except (OSError, UnicodeError, msgspec.DecodeError) as error:
            _log.warning("checkpoint of public addresses cannot be read", file=str(self._path), why=str(error))
            return IngressObjects()
        return IngressObjects(
            found.addresses,
            found.pools,
            found.services,
            found.slices,
            found.endpoints,
            set(found.places),
            found.peers,
            found.node,
            found.passwords,
        )

    async def save(self, objects: IngressObjects) -> None:
        """Write the checkpoint, or remove it if there is nothing to keep."""
        if objects.empty:
            # Before the rules are removed: after a kill in between the next agent removes them once it has synced.
            self._path.unlink(missing_ok=True)
            self._saved = b""
            return
        kept = IngressCheckpoint(
            list(objects.addresses),
            dict(objects.pools),
            dict(objects.services),
            sorted(objects.slices, key=lambda each: (each.metadata.namespace, each.metadata.name)),
            dict(sorted(objects.endpoints.items())),
            sorted(objects.places),
            dict(sorted(objects.peers.items())),
            objects.node,
            dict(sorted(objects.passwords.items())),
        )
        content = msgspec.json.encode(kept)
        if (digest := sha256(content).digest()) != self._saved:
            await asyncio.to_thread(replace_file, self._path, content)
            # Only after the write: the next pass repeats a failed one.
            self._saved = digest

    def _forward(self, old: Any, new: Any) -> None:
        item = new or old
        assert item is not None
        self._pods.changed(Change("DELETED" if new is None else "MODIFIED", item.metadata, item.raw))

    def _slice_changed(self, _: str, old: SliceFacts | None, new: SliceFacts | None) -> None:
        # Slices change all over the cluster: only those of holders of addresses count.
        if any(each is not None and slice_key(each) in self._used for each in (old, new)):
            self._changed()

    def _endpoint_changed(self, _: str, old: TunnelEndpoint | None, new: TunnelEndpoint | None) -> None:
        if self._used and (old is None or new is None or _place(old) != _place(new)):
            self._changed()

    def _node_changed(self, _: Any, new: Item[JsonObject] | None) -> None:
        own = new.object if new is not None else {}
        cordoned = bool(mapping(own, "spec").get("unschedulable"))
        found = OwnNode(dict(mapping(own, "metadata", "labels")), cordoned)
        # Only what decides about gateways and sessions: a node reports its status every few seconds.
        if found != self._node:
            self._node = found
            self._changed()

    def _pod_changed(self, _: str, old: NetworkPod | None, new: NetworkPod | None) -> None:
        if self._used:
            self._changed()


_address, _pool, _peer = decoder(PublicAddress), decoder(AddressPool), decoder(BGPPeer)


def _without_status(raw: bytes) -> PublicAddress:
    found = _address(raw)
    found.status = None
    found.metadata.resource_version = ""
    return found


class _Passing(NamedTuple):
    """An address, and the gateways that report no obstacle."""

    address: str
    nodes: frozenset[str]


def _passing(raw: bytes) -> _Passing:
    found = _address(raw)
    return _Passing(found.spec.address, passing_gateways(found))


def _without_pool_status(raw: bytes) -> AddressPool:
    found = _pool(raw)
    found.status = None
    found.metadata.resource_version = ""
    return found


def _without_peer_status(raw: bytes) -> BGPPeer:
    found = _peer(raw)
    found.status = None
    found.metadata.resource_version = ""
    return found


def _held_slice(raw: bytes) -> SliceFacts | None:
    found = decode_slice(raw)
    return found if slice_key(found) else None


def _place(endpoint: TunnelEndpoint) -> tuple[object, ...]:
    return endpoint.addresses, endpoint.location, endpoint.encryption, endpoint.public_key
