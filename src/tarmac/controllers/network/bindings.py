"""Reconciles NetworkBindings: a request for a Network at a Location, answered with the context that serves it.

The context is created in the Network's namespace, is owned by the Network, and is shared by all bindings of the same
Network at the same Location.
"""

from __future__ import annotations

from tarmac.api.conditions import find, holds, with_condition
from tarmac.api.networking.names import API_VERSION, context_name
from tarmac.api.networking.network import (
    Network,
    NetworkBinding,
    NetworkBindingStatus,
    NetworkContext,
    NetworkContextSpec,
    ObjectReference,
)
from tarmac.api.shared import Condition, LocalObjectReference, LocationReference, ObjectMeta, OwnerReference
from tarmac.api.status import AlreadyExists
from tarmac.client.targets.typed import NETWORK_BINDINGS, NETWORK_CONTEXTS, NETWORKS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.indexes import (
    BY_CONTEXT,
    BY_NETWORK,
    context_key,
    context_of_binding,
    network_key,
    network_of_binding,
)
from tarmac.controllers.network.networks import MANAGER
from tarmac.controllers.writes import write_status
from tarmac.decide import reasons
from tarmac.decide.addresses import refused_range
from tarmac.decide.verdict import Refusal, Verdict


class BindingController:
    """Reconciles by the binding's key."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._clock = client.clock
        self._bindings = client.resource(NETWORK_BINDINGS)
        self._contexts = client.resource(NETWORK_CONTEXTS)
        self._known = informers.informer(NETWORK_BINDINGS)
        self._known.add_index(BY_NETWORK, network_of_binding)
        self._known.add_index(BY_CONTEXT, context_of_binding)
        self._networks = informers.informer(NETWORKS)
        self._known_contexts = informers.informer(NETWORK_CONTEXTS)
        self._controller = context.controller("network-binding", self.reconcile)
        self._controller.watches(self._known)
        self._controller.watches(self._networks, lambda item: self._users(BY_NETWORK, item.key))
        self._controller.watches(self._known_contexts, lambda item: self._users(BY_CONTEXT, item.key))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _users(self, index: str, key: str) -> list[str]:
        return [item.key for item in self._known.indexed(index, key)]

    async def reconcile(self, key: str) -> None:
        """Find or create the context of one binding, and write the binding's status."""
        binding = self._known.get(key)
        if binding is None or binding.metadata.deletion_timestamp is not None:
            return
        verdict = await self._context_for(binding)
        status = self._observed(binding, verdict)
        await write_status(self._bindings, binding.metadata, binding.status, status, MANAGER)

    async def _context_for(self, binding: NetworkBinding) -> Verdict[NetworkContext]:
        wanted = network_key(binding)
        network = self._networks.get(wanted)
        if network is None:
            return _no(reasons.NETWORK_NOT_FOUND, f"Network {wanted} does not exist.", f"Create Network {wanted}.")
        # A new context would hold up the deletion of the Network.
        if network.metadata.deletion_timestamp is not None:
            return _no(reasons.NETWORK_IN_USE, f"Network {wanted} is being deleted.")
        if (refusal := refused_range(network)) is not None:
            return Verdict(None, (refusal,))
        context = self._known_contexts.get(context_key(binding))
        if context is None:
            context = await self._make(network, binding.spec.location.name)
        # A context that is being deleted takes its subnets with it.
        if context is None or context.metadata.deletion_timestamp is not None:
            return _no(reasons.NETWORK_CONTEXT_NOT_READY, "Network context is being made.")
        if (context.spec.network.name, context.spec.location.name) != (
            network.metadata.name,
            binding.spec.location.name,
        ):
            message = f"NetworkContext {context.metadata.name} is about another network or place."
            return _no(reasons.NAME_TAKEN, message, f"Delete NetworkContext {context.metadata.name}.")
        return Verdict(await self._update_context(network, context))

    async def _update_context(self, network: Network, context: NetworkContext) -> NetworkContext:
        """Update a context whose families or MTU differ from its Network's."""
        wanted, own = network.spec, context.metadata
        if (context.spec.ip_families, context.spec.mtu) == (wanted.ip_families, wanted.mtu):
            return context
        patch = {"spec": {"ipFamilies": wanted.ip_families, "mtu": wanted.mtu}}
        return await self._contexts.patch(own.name, patch, own.namespace, manager=MANAGER)

    async def _make(self, network: Network, location: str) -> NetworkContext | None:
        own = network.metadata
        made = NetworkContext(
            metadata=ObjectMeta(
                name=context_name(own.name, location),
                namespace=own.namespace,
                owner_references=[OwnerReference(API_VERSION, "Network", own.name, own.uid, True, True)],
            ),
            spec=NetworkContextSpec(
                network=LocalObjectReference(own.name),
                location=LocationReference(location),
                ip_families=network.spec.ip_families,
                mtu=network.spec.mtu,
            ),
        )
        try:
            return await self._contexts.create(made, manager=MANAGER)
        except AlreadyExists:
            return None  # the cache is behind; the existing context triggers the next pass

    def _observed(self, binding: NetworkBinding, verdict: Verdict[NetworkContext]) -> NetworkBindingStatus:
        known, context = binding.status or NetworkBindingStatus(), verdict.value
        condition = _condition(verdict)
        condition.observed_generation = binding.metadata.generation
        reference = ObjectReference(context.metadata.name, context.metadata.namespace) if context else None
        return NetworkBindingStatus(
            observed_generation=binding.metadata.generation,
            conditions=with_condition(known.conditions, condition, self._clock.now()),
            network_context_ref=reference or known.network_context_ref,
        )


def _condition(verdict: Verdict[NetworkContext]) -> Condition:
    context = verdict.value
    if context is None:
        refusal = verdict.refusals[0]
        return Condition("Ready", "False", refusal.reason, refusal.message)
    conditions = context.status.conditions if context.status else []
    if holds(conditions, "Ready"):
        return Condition("Ready", "True", reasons.NETWORK_CONTEXT_READY, "Network context is ready.")
    ready = find(conditions, "Ready")
    if ready is not None and ready.status == "False":
        return Condition("Ready", "False", ready.reason, ready.message)
    return Condition("Ready", "False", reasons.NETWORK_CONTEXT_NOT_READY, "Network context is not ready.")


def _no(reason: str, message: str, change: str = "") -> Verdict[NetworkContext]:
    return Verdict(None, (Refusal(reason, message, rule="network", change=change),))
