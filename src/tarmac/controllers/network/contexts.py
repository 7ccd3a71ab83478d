"""Reconciles NetworkContexts: a Network at one Location, with a subnet for each of its families.

A context is ready when every family has its subnet. It is deleted with its Network, or when its Location is gone and no
binding uses it any more. Its MTU is the one that the Network requests, limited by the nodes of the Location.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.conditions import find, holds, with_condition
from tarmac.api.networking.names import (
    ANNOTATION_UNDERLAY_MTU,
    API_VERSION,
    LABEL_LOCATION,
    SUBNET_CLASS,
    subnet_name,
)
from tarmac.api.networking.network import (
    NetworkContext,
    NetworkContextStatus,
    SubnetClaim,
    SubnetClaimSpec,
)
from tarmac.api.shared import Condition, IPFamily, LocalObjectReference, ObjectMeta, OwnerReference
from tarmac.api.status import AlreadyExists
from tarmac.client.cache import Item, by_owner
from tarmac.client.targets.typed import LOCATIONS, NETWORK_BINDINGS, NETWORK_CONTEXTS, NETWORKS, SUBNET_CLAIMS
from tarmac.client.targets.untyped import NODES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.indexes import BY_CONTEXT, BY_LOCATION, context_of_binding, context_of_claim
from tarmac.controllers.network.networks import BY_OWNER, MANAGER
from tarmac.controllers.writes import delete_same, write_status
from tarmac.decide import reasons
from tarmac.decide.addresses import packet_size

BY_PLACE = "place"
_DEBOUNCE_SECONDS = 0.5


def _place_of(item: Item[Any]) -> str:
    return (item.metadata.labels or {}).get(LABEL_LOCATION, "")


def _underlay_of(item: Item[Any]) -> str:
    return (item.metadata.annotations or {}).get(ANNOTATION_UNDERLAY_MTU, "")


class ContextController:
    """Reconciles by the context's key."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._clock = client.clock
        self._contexts = client.resource(NETWORK_CONTEXTS)
        self._claims = client.resource(SUBNET_CLAIMS)
        self._known = informers.informer(NETWORK_CONTEXTS)
        self._known.add_index(BY_LOCATION, lambda item: (item.object.spec.location.name,))
        self._known_claims = informers.informer(SUBNET_CLAIMS)
        self._bindings = informers.informer(NETWORK_BINDINGS)
        self._bindings.add_index(BY_CONTEXT, context_of_binding)
        self._networks = informers.informer(NETWORKS)
        self._known.add_index(BY_OWNER, by_owner)
        self._locations = informers.informer(LOCATIONS)
        self._nodes = informers.informer(NODES)
        self._nodes.add_index(BY_PLACE, lambda item: (_place_of(item),))
        self._nodes.on_change(self._node_changed)
        self._controller = context.controller("network-context", self.reconcile)
        self._controller.watches(self._known)
        self._controller.watches(self._known_claims, context_of_claim)
        self._controller.watches(self._bindings, context_of_binding)
        self._controller.watches(self._networks, lambda item: self._of(item.metadata.uid))
        self._controller.watches(self._locations, lambda item: self._at(item.metadata.name))
        self._controller.awaits(self._nodes)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _at(self, location: str) -> list[str]:
        return [each.key for each in self._known.indexed(BY_LOCATION, location)]

    def _of(self, network: str) -> list[str]:
        return [each.key for each in self._known.indexed(BY_OWNER, network)]

    def _node_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        """Requeue contexts when a node's underlay MTU or Location changes; most node changes concern neither."""
        places = {(_place_of(item), _underlay_of(item)) for item in (old, new) if item is not None}
        if len(places) == 1 and old is not None and new is not None:
            return
        for location, underlay in places:
            for key in self._at(location) if underlay else ():
                # Debounced: a hostile node may change its annotation constantly, and each change concerns every
                # Network.
                self._controller.queue.add_after(key, _DEBOUNCE_SECONDS)

    async def reconcile(self, key: str) -> None:
        """Create missing subnet claims of one context and write its status, or delete it when unused."""
        context = self._known.get(key)
        if context is None or context.metadata.deletion_timestamp is not None:
            return
        metadata = context.metadata
        # Bindings decide: a context in use keeps its subnets even if its Location is gone.
        if context.spec.location.name not in self._locations.cache and not self._bindings.indexed(BY_CONTEXT, key):
            await delete_same(self._contexts, metadata)
            return
        for family in context.spec.ip_families:
            if f"{metadata.namespace}/{subnet_name(metadata.name, family)}" not in self._known_claims.cache:
                await self._claim(context, family)
        await write_status(self._contexts, metadata, context.status, self._observed(context), MANAGER)

    async def _claim(self, context: NetworkContext, family: IPFamily) -> None:
        own = context.metadata
        claim = SubnetClaim(
            metadata=ObjectMeta(
                name=subnet_name(own.name, family),
                namespace=own.namespace,
                owner_references=[OwnerReference(API_VERSION, "NetworkContext", own.name, own.uid)],
            ),
            spec=SubnetClaimSpec(SUBNET_CLASS, LocalObjectReference(own.name), context.spec.location, family),
        )
        try:
            await self._claims.create(claim, manager=MANAGER)
        except AlreadyExists:
            return

    def _observed(self, context: NetworkContext) -> NetworkContextStatus:
        known = context.status or NetworkContextStatus()
        condition = self._condition(context)
        condition.observed_generation = context.metadata.generation
        nodes = self._nodes.indexed(BY_PLACE, context.spec.location.name)
        return NetworkContextStatus(
            observed_generation=context.metadata.generation,
            conditions=with_condition(known.conditions, condition, self._clock.now()),
            mtu=packet_size(context.spec.mtu, (item.object for item in nodes), encrypted=self._is_encrypted(context)),
        )

    def _is_encrypted(self, context: NetworkContext) -> bool:
        network = self._networks.get(f"{context.metadata.namespace}/{context.spec.network.name}")
        return network is not None and network.spec.encryption != "Never"

    def _condition(self, context: NetworkContext) -> Condition:
        own = context.metadata
        for family in context.spec.ip_families:
            claim = self._known_claims.get(f"{own.namespace}/{subnet_name(own.name, family)}")
            conditions = claim.status.conditions if claim and claim.status else []
            if not holds(conditions, "Ready"):
                ready = find(conditions, "Ready")
                reason, message = (ready.reason, ready.message) if ready else (reasons.SUBNET_NOT_READY, "")
                return Condition("Ready", "False", reason, message or f"The {family} subnet is not ready.")
        return Condition("Ready", "True", reasons.NETWORK_CONTEXT_READY, "Network context is ready.")
