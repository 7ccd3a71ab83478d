"""Gives each Network its number on the wire and its ranges, and takes it down in order.

Numbers and ranges are given by one worker, from what every Network says it has and from what was given but is not seen
yet; so no two Networks get the same. A Network that is deleted waits until no deployment uses it, then its contexts go,
with their subnets; then it goes itself.

A range that can be no network's, or that holds the address of a node, is refused: nothing more is attached to the
Network until the node has gone. Nodes come and go, so whenever one's addresses change every Network is looked at again.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tarmac.api.conditions import with_condition
from tarmac.api.networking.names import NETWORK_FINALIZER
from tarmac.api.networking.network import Network, NetworkStatus
from tarmac.api.schema import JsonObject
from tarmac.api.shared import Condition
from tarmac.api.status import NotFound
from tarmac.client.cache import Item, by_owner
from tarmac.client.controller import controller_key
from tarmac.client.targets.typed import NETWORK_BINDINGS, NETWORK_CONTEXTS, NETWORKS
from tarmac.client.targets.untyped import NODES
from tarmac.controllers.context import Context
from tarmac.controllers.indexes import BY_NETWORK, network_of_binding
from tarmac.controllers.network.allocated import Allocated
from tarmac.controllers.writing import delete_same, release, set_finalizers, write_status
from tarmac.decide import reasons
from tarmac.decide.addresses import NodeAddresses, allocate_vni, default_range, range_refusal, refused_range
from tarmac.decide.verdict import Verdict

MANAGER = "tarmac-network"
BY_OWNER = "owner"
_EVERY, _GATHER_SECONDS, _AT_ONCE = "", 0.5, 500


def addresses_of(node: JsonObject) -> list[str]:
    """The addresses that a Node says it has."""
    listed = (node.get("status") or {}).get("addresses") or ()
    return [each["address"] for each in listed if each["type"] in ("InternalIP", "ExternalIP")]


class NetworkController:
    """Reconciles by the Network's key."""

    def __init__(self, context: Context) -> None:
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
        self._known_nodes.on_change(self._node_changed)
        self._allocated = Allocated()  # what is seen, and what was given but is not seen yet
        self._known.on_change(self._seen)
        self._controller = context.controller("network", self.reconcile, workers=1)
        self._controller.watches(self._known)
        self._controller.watches(self._bindings, network_of_binding)
        self._controller.watches(self._known_contexts, controller_key("Network"))
        self._controller.awaits(self._known_nodes)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, key: str) -> None:
        """Bring one Network in line."""
        if key == _EVERY:
            await self._look_at_all()
            return
        network = self._known.get(key)
        if network is None:
            return
        metadata = network.metadata
        if metadata.deletion_timestamp is not None:
            await self._take_down(key, network)
        elif NETWORK_FINALIZER not in metadata.finalizers:
            await set_finalizers(self._networks, metadata, [*metadata.finalizers, NETWORK_FINALIZER])
        else:
            await self._provide(network)

    async def _provide(self, network: Network) -> None:
        uid = network.metadata.uid
        self._allocated.release(uid)  # what it was given before and does not show yet it may be given again
        status = self._wanted(network)
        self._allocated.hold(uid, status, network.metadata.namespace)
        try:
            await write_status(self._networks, network.metadata, network.status, status, MANAGER)
        except NotFound:
            self._allocated.release(uid)

    def _wanted(self, network: Network) -> NetworkStatus:
        known = network.status or NetworkStatus()
        verdict = Verdict(known.vni) if known.vni else allocate_vni(self._allocated.numbers)
        ipv4, ipv6 = self._ranges(network)
        refusal = verdict.refusals[0] if verdict.refusals else range_refusal((ipv4, ipv6), self._nodes.are_in)
        if refusal is not None:  # what it has it keeps, but gets nothing that could be carved up
            ipv4, ipv6 = known.ipv4_range, known.ipv6_range
        condition = Condition("Ready", "True", reasons.NETWORK_READY, "The network can be used.")
        if refusal is not None:
            condition = Condition("Ready", "False", refusal.reason, refusal.message)
        status = NetworkStatus(network.metadata.generation, [], verdict.value or 0, ipv4, ipv6)
        return self._with(status, known, condition, network)

    def _ranges(self, network: Network) -> tuple[str, str]:
        """What it asks for, has, or would get; empty for a family that it does not carry."""
        known, ipam, families = network.status or NetworkStatus(), network.spec.ipam, network.spec.ip_families
        uid, taken, nodes = network.metadata.uid, self._allocated.ranges, self._nodes.are_in
        ipv4, ipv6 = ipam.ipv4_range or known.ipv4_range, ipam.ipv6_range or known.ipv6_range
        return (
            (ipv4 or default_range("IPv4", uid, self._allocated.together(network.metadata.namespace), nodes))
            if "IPv4" in families
            else "",
            (ipv6 or default_range("IPv6", uid, taken, nodes)) if "IPv6" in families else "",
        )

    def _node_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        if self._nodes.put(item.metadata.name, addresses_of(new.object) if new is not None else ()):
            self._controller.queue.add_after(_EVERY, _GATHER_SECONDS)  # once, however many nodes come together

    async def _look_at_all(self) -> None:
        """Those whose range is refused and was not, or the other way round, get another look."""
        for number, item in enumerate(list(self._known.cache.items())):
            network = item.object
            refusal = range_refusal(self._ranges(network), self._nodes.are_in)
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

    def _seen(self, old: Item[Network] | None, new: Item[Network] | None) -> None:
        """What a Network shows is what it has. One that shows no number yet may have been given one."""
        if new is None and old is not None:
            self._allocated.release(old.metadata.uid)
        elif new is not None and new.object.status is not None and new.object.status.vni:
            self._allocated.hold(new.metadata.uid, new.object.status, new.metadata.namespace)

    async def _take_down(self, key: str, network: Network) -> None:
        metadata = network.metadata
        if NETWORK_FINALIZER not in metadata.finalizers:
            return
        users = self._bindings.indexed(BY_NETWORK, key)
        if users:
            await self._wait_for(network, users)
            return
        contexts = self._known_contexts.indexed(BY_OWNER, metadata.uid)
        for item in contexts:
            if item.metadata.deletion_timestamp is None:
                await delete_same(self._contexts, item.metadata)
        if not contexts:
            await release(self._networks, metadata, NETWORK_FINALIZER)

    async def _wait_for(self, network: Network, users: list[Item[Any]]) -> None:
        named = ", ".join(sorted(item.key for item in users)[:3])
        message = f"The network is deleted once nothing uses it; {len(users)} bindings do, such as {named}."
        known = network.status or NetworkStatus()
        status = NetworkStatus(network.metadata.generation, [], known.vni, known.ipv4_range, known.ipv6_range)
        status = self._with(status, known, Condition("Ready", "False", reasons.NETWORK_IN_USE, message), network)
        await write_status(self._networks, network.metadata, network.status, status, MANAGER)
