"""Assigns each Network its VNI and ranges, and deletes it in order.

One worker assigns VNIs and ranges, from the status of all Networks and from assignments that the cache does not show
yet, so no two Networks get the same. A deleted Network waits until no binding uses it; then its contexts are deleted
with their subnets, and then its finalizer is removed.

A range that no Network may use, or that contains a node's address when the Network is created, is refused: nothing more
is attached to the Network until the node is gone. A Network that already has its range keeps it when a node later
reports an address in it: otherwise a node could disable the Network of any tenant. An event on the Node reports it. All
Networks are checked again whenever the addresses of a node change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from tarmac.api.conditions import with_condition
from tarmac.api.networking.names import NETWORK_FINALIZER
from tarmac.api.networking.network import Network, NetworkStatus
from tarmac.api.schema import JsonObject
from tarmac.api.shared import Condition
from tarmac.api.status import NotFound
from tarmac.client.cache import Item, by_owner
from tarmac.client.controller import controller_key
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.client.informer import Informer
from tarmac.client.targets.typed import NETWORK_BINDINGS, NETWORK_CONTEXTS, NETWORKS
from tarmac.client.targets.untyped import NODES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.indexes import BY_NETWORK, network_of_binding
from tarmac.controllers.writes import delete_same, release, set_finalizers, write_status
from tarmac.decide import reasons
from tarmac.decide.addresses import (
    FIRST_VNI,
    NodeAddresses,
    allocate_vni,
    default_range,
    keeps_range,
    range_refusal,
    refused_range,
    vni_numbers,
)
from tarmac.decide.verdict import Refusal, Verdict

MANAGER = "tarmac-network"
BY_OWNER = "owner"
_ALL, _DEBOUNCE_SECONDS, _AT_ONCE = "", 0.5, 500


class NodeWarnings:
    """Remembers the nodes it has warned of: at most one event per change of a node's addresses."""

    def __init__(self, recorder: Recorder, nodes: Informer[JsonObject]) -> None:
        self._recorder = recorder
        self._known = nodes
        self._warned: set[str] = set()

    def forget(self, node: str) -> None:
        """Allow another warning: the addresses of a node have changed."""
        self._warned.discard(node)

    def check(self, network: str, ranges: Iterable[str], nodes: NodeAddresses) -> None:
        """Warn of the first node in each range of a Network."""
        for each in filter(None, ranges):
            node = nodes.first_in(each)
            known = self._known.get(node) if node and node not in self._warned else None
            if known is not None:
                self._warned.add(node)
                self._warn(known, each, network)

    def _warn(self, node: JsonObject, cidr: str, network: str) -> None:
        metadata = node["metadata"]
        message = (
            f"The node has an address in the range {cidr} of Network {network}: pods of that Network do not reach the "
            "node there. Give the node another address, or use a Network with another range."
        )
        about = InvolvedObject("v1", "Node", metadata["name"], uid=metadata["uid"])
        self._recorder.event(about, "Warning", "AddressInNetwork", message)


# Allocations of all Networks: VNIs and IPv6 ranges, which must be unique, and IPv4 ranges per namespace.
#
# Maintained incrementally as Networks change, so that an allocation does not iterate over all of them.


class Allocations:
    """Allocations by the Network's uid."""

    def __init__(self) -> None:
        self.numbers = vni_numbers()
        self.ranges: Counter[str] = Counter()
        self._shared: dict[str, Counter[str]] = {}  # by namespace: IPv4 ranges
        self._vnis: Counter[int] = Counter()
        self._held: dict[str, tuple[int, str, str, str]] = {}

    def shared_ranges(self, namespace: str) -> Collection[str]:
        """Return the IPv4 ranges of a namespace's Networks."""
        return self._shared.get(namespace, ())

    def hold(self, uid: str, status: NetworkStatus, namespace: str = "") -> None:
        """Record a Network's allocations in place of its previous ones."""
        # The old ones first: a Network that keeps its VNI must not be counted twice.
        self.release(uid)
        vni, own, _, shared = self._held[uid] = status.vni, status.ipv6_range, namespace, status.ipv4_range
        if shared:
            self._shared.setdefault(namespace, Counter())[shared] += 1
        self._vnis[vni] += 1
        self.ranges[own] += 1
        self.numbers = self.numbers.holding(vni - FIRST_VNI)

    def release(self, uid: str) -> None:
        """Release all allocations of a Network."""
        vni, own, namespace, shared = self._held.pop(uid, (0, "", "", ""))
        _decrement(self._shared.get(namespace, Counter()), shared)
        if not self._shared.get(namespace, True):
            del self._shared[namespace]
        self._vnis[vni] -= 1
        if self._vnis[vni] <= 0:  # two Networks may have been written with the same VNI
            del self._vnis[vni]
            self.numbers = self.numbers.releasing(vni - FIRST_VNI)
        _decrement(self.ranges, own)


def _decrement(counted: Counter[str], one: str) -> None:
    counted[one] -= 1
    if counted[one] <= 0:
        del counted[one]


def addresses_of(node: JsonObject) -> list[str]:
    """Return the addresses that a Node reports."""
    listed = (node.get("status") or {}).get("addresses") or ()
    return [each["address"] for each in listed if each["type"] in ("InternalIP", "ExternalIP")]


class NetworkController:
    """Reconciles by the Network's key."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._clock = client.clock
        self._networks = client.resource(NETWORKS)
        self._contexts = client.resource(NETWORK_CONTEXTS)
        self._known = informers.informer(NETWORKS)
        self._bindings = informers.informer(NETWORK_BINDINGS)
        self._bindings.add_index(BY_NETWORK, network_of_binding)
        self._known_contexts = informers.informer(NETWORK_CONTEXTS)
        self._known_contexts.add_index(BY_OWNER, by_owner)
        self._nodes = NodeAddresses()
        self._known_nodes = informers.informer(NODES)
        self._warnings = NodeWarnings(context.recorder, self._known_nodes)
        self._known_nodes.on_change(self._node_changed)
        self._allocated = Allocations()  # observed allocations, and assigned ones not observed yet
        self._known.on_change(self._observe)
        self._controller = context.controller("network", self.reconcile, workers=1)
        self._controller.watches(self._known)
        self._controller.watches(self._bindings, network_of_binding)
        self._controller.watches(self._known_contexts, controller_key("Network"))
        self._controller.awaits(self._known_nodes)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, key: str) -> None:
        """Assign one Network's VNI and ranges and write its status, or take it down."""
        if key == _ALL:
            await self._check_all()
            return
        network = self._known.get(key)
        if network is None:
            return
        metadata = network.metadata
        if metadata.deletion_timestamp is not None:
            await self._take_down(key, network)
        # Before any allocation: a Network without it could be deleted together with ranges that subnets still use.
        elif NETWORK_FINALIZER not in metadata.finalizers:
            await set_finalizers(self._networks, metadata, [*metadata.finalizers, NETWORK_FINALIZER])
        else:
            await self._provide(network)

    async def _provide(self, network: Network) -> None:
        uid = network.metadata.uid
        self._allocated.release(uid)  # an assignment of its own that is not observed yet may be assigned to it again
        status = self._wanted(network)
        # Held before the write: its outcome may stay unknown, and no other Network may get the same VNI or range.
        self._allocated.hold(uid, status, network.metadata.namespace)
        try:
            await write_status(self._networks, network.metadata, network.status, status, MANAGER)
        except NotFound:
            self._allocated.release(uid)

    def _wanted(self, network: Network) -> NetworkStatus:
        known = network.status or NetworkStatus()
        verdict = Verdict(known.vni) if known.vni else allocate_vni(self._allocated.numbers)
        ipv4, ipv6 = self._ranges(network)
        refusal = verdict.refusals[0] if verdict.refusals else self._refusal(network, (ipv4, ipv6))
        if refusal is not None:  # it keeps its present ranges, but gets none that subnets could use
            ipv4, ipv6 = known.ipv4_range, known.ipv6_range
        condition = Condition("Ready", "True", reasons.NETWORK_READY, "The network can be used.")
        if refusal is not None:
            condition = Condition("Ready", "False", refusal.reason, refusal.message)
        status = NetworkStatus(network.metadata.generation, [], verdict.value or 0, ipv4, ipv6)
        return self._with(status, known, condition, network)

    def _refusal(self, network: Network, ranges: tuple[str, str]) -> Refusal | None:
        ipam = network.spec.ipam
        # A range chosen here already contains the fewest possible nodes.
        requested = () if keeps_range(network) else (ipam.ipv4_range, ipam.ipv6_range)
        return range_refusal(ranges, lambda each: each in requested and self._nodes.are_in(each))

    def _ranges(self, network: Network) -> tuple[str, str]:
        """Return the requested, present or default ranges; empty for a family that the Network does not have."""
        known, ipam, families = network.status or NetworkStatus(), network.spec.ipam, network.spec.ip_families
        uid, taken, nodes = network.metadata.uid, self._allocated.ranges, self._nodes.count
        ipv4, ipv6 = ipam.ipv4_range or known.ipv4_range, ipam.ipv6_range or known.ipv6_range
        return (
            (ipv4 or default_range("IPv4", uid, self._allocated.shared_ranges(network.metadata.namespace), nodes))
            if "IPv4" in families
            else "",
            (ipv6 or default_range("IPv6", uid, taken, nodes)) if "IPv6" in families else "",
        )

    def _node_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        if self._nodes.put(item.metadata.name, addresses_of(new.object) if new is not None else ()):
            self._warnings.forget(item.metadata.name)
            self._controller.queue.add_after(_ALL, _DEBOUNCE_SECONDS)  # once, however many nodes change together

    async def _check_all(self) -> None:
        """Requeue Networks whose range has become refused or acceptable."""
        for number, item in enumerate(list(self._known.cache.items())):
            network = item.object
            ranges = self._ranges(network)
            refusal = self._refusal(network, ranges)
            self._warnings.check(item.key, ranges, self._nodes)
            if (refused_range(network) is None) != (refusal is None):
                self._controller.queue.add(item.key)
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)

    def _with(
        self, status: NetworkStatus, known: NetworkStatus, condition: Condition, network: Network
    ) -> NetworkStatus:
        condition.observed_generation = network.metadata.generation
        status.conditions = with_condition(known.conditions, condition, self._clock.now())
        return status

    def _observe(self, old: Item[Network] | None, new: Item[Network] | None) -> None:
        """Record the allocations in a Network's status.

        Without a VNI there, an assignment may still be on its way: keep it.
        """
        if new is None and old is not None:
            self._allocated.release(old.metadata.uid)
        elif new is not None and new.object.status is not None and new.object.status.vni:
            self._allocated.hold(new.metadata.uid, new.object.status, new.metadata.namespace)

    async def _take_down(self, key: str, network: Network) -> None:
        metadata = network.metadata
        if NETWORK_FINALIZER not in metadata.finalizers:
            return
        users = self._bindings.indexed(BY_NETWORK, key)
        # Bindings first: their pods still use addresses of the Network.
        if users:
            await self._wait_for(network, users)
            return
        contexts = self._known_contexts.indexed(BY_OWNER, metadata.uid)
        for item in contexts:
            if item.metadata.deletion_timestamp is None:
                await delete_same(self._contexts, item.metadata)
        # Contexts own the subnets: while one is left, addresses of the ranges may be in use.
        if not contexts:
            await release(self._networks, metadata, NETWORK_FINALIZER)

    async def _wait_for(self, network: Network, users: list[Item[Any]]) -> None:
        named = ", ".join(sorted(item.key for item in users)[:3])
        message = f"The network is deleted once nothing uses it; {len(users)} bindings do, such as {named}."
        known = network.status or NetworkStatus()
        status = NetworkStatus(network.metadata.generation, [], known.vni, known.ipv4_range, known.ipv6_range)
        status = self._with(status, known, Condition("Ready", "False", reasons.NETWORK_IN_USE, message), network)
        await write_status(self._networks, network.metadata, network.status, status, MANAGER)
