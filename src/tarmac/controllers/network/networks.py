"""Gives each Network its number on the wire and its ranges, and takes it down in order.

Numbers and ranges are given by one worker, from what every Network says it has and from what was given but is not seen
yet; so no two Networks get the same. A Network that is deleted waits until no deployment uses it, then its contexts go,
with their subnets; then it goes itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tarmac.api.networking.names import NETWORK_FINALIZER
from tarmac.api.networking.network import Network, NetworkBinding, NetworkStatus
from tarmac.api.shared import Condition
from tarmac.api.status import NotFound
from tarmac.client.cache import Item, by_owner
from tarmac.client.controller import controller_key
from tarmac.controllers.conditions import with_condition
from tarmac.controllers.context import Context
from tarmac.controllers.targets import NETWORK_BINDINGS, NETWORK_CONTEXTS, NETWORKS
from tarmac.controllers.writing import set_finalizers, write_status
from tarmac.decide import reasons
from tarmac.decide.addresses import allocate_vni, default_range

MANAGER = "tarmac-network"
BY_NETWORK, BY_OWNER = "network", "owner"


def network_key(binding: NetworkBinding) -> str:
    """The Network that a binding asks for."""
    wanted = binding.spec.network
    return f"{wanted.namespace or binding.metadata.namespace}/{wanted.name}"


def network_of_binding(item: Item[NetworkBinding]) -> tuple[str, ...]:
    """Index: bindings by the key of their Network."""
    return (network_key(item.object),)


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
        self._given: dict[str, NetworkStatus] = {}  # by uid: written, not seen yet
        self._known.on_change(self._seen)
        self._controller = context.controller("network", self.reconcile, workers=1)
        self._controller.watches(self._known)
        self._controller.watches(self._bindings, network_of_binding)
        self._controller.watches(self._known_contexts, controller_key("Network"))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, key: str) -> None:
        """Bring one Network in line."""
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
        status = self._wanted(network)
        self._given[network.metadata.uid] = status
        try:
            written = await write_status(self._networks, network.metadata, network.status, status, MANAGER)
        except NotFound:
            written = None
        if written is None:
            self._given.pop(network.metadata.uid, None)

    def _wanted(self, network: Network) -> NetworkStatus:
        known = network.status or NetworkStatus()
        ipam, families = network.spec.ipam, network.spec.ip_families
        others = [status for uid, status in self._statuses() if uid != network.metadata.uid]
        verdict = allocate_vni(status.vni for status in others) if not known.vni else None
        vni = known.vni if verdict is None else verdict.value or 0
        taken = [status.ipv6_range for status in others if status.ipv6_range]
        ipv4, ipv6 = ipam.ipv4_range or known.ipv4_range, ipam.ipv6_range or known.ipv6_range
        status = NetworkStatus(
            observed_generation=network.metadata.generation,
            vni=vni,
            ipv4_range=(ipv4 or default_range("IPv4", network.metadata.uid)) if "IPv4" in families else "",
            ipv6_range=(ipv6 or default_range("IPv6", network.metadata.uid, taken)) if "IPv6" in families else "",
        )
        condition = Condition("Ready", "True", reasons.NETWORK_READY, "The network can be used.")
        if verdict is not None and verdict.value is None:
            refusal = verdict.refusals[0]
            condition = Condition("Ready", "False", refusal.reason, refusal.message)
        return self._with(status, known, condition, network)

    def _with(
        self, status: NetworkStatus, known: NetworkStatus, condition: Condition, network: Network
    ) -> NetworkStatus:
        condition.observed_generation = network.metadata.generation
        status.conditions = with_condition(known.conditions, condition, self._clock.now())
        return status

    def _statuses(self) -> Iterable[tuple[str, NetworkStatus]]:
        """What every Network has, as far as known here."""
        for item in self._known.cache.items():
            network = item.object
            if network.status is not None:
                yield network.metadata.uid, network.status
        yield from self._given.items()

    def _seen(self, old: Item[Network] | None, new: Item[Network] | None) -> None:
        """What was given is in our copy once it shows a number, and given back when the Network is gone."""
        if new is None and old is not None:
            self._given.pop(old.metadata.uid, None)
        elif new is not None and new.metadata.uid in self._given:
            status = new.object.status
            if status is not None and status.vni:
                del self._given[new.metadata.uid]

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
                await self._contexts.delete(item.metadata.name, item.metadata.namespace, uid=item.metadata.uid)
        if not contexts:
            kept = [each for each in metadata.finalizers if each != NETWORK_FINALIZER]
            await set_finalizers(self._networks, metadata, kept)

    async def _wait_for(self, network: Network, users: list[Item[Any]]) -> None:
        named = ", ".join(sorted(item.key for item in users)[:3])
        message = f"The network is deleted once nothing uses it; {len(users)} bindings do, such as {named}."
        known = network.status or NetworkStatus()
        status = NetworkStatus(network.metadata.generation, [], known.vni, known.ipv4_range, known.ipv6_range)
        status = self._with(status, known, Condition("Ready", "False", reasons.NETWORK_IN_USE, message), network)
        await write_status(self._networks, network.metadata, network.status, status, MANAGER)
