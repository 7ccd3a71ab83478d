"""Creates the Subnet of each SubnetClaim and assigns it a part of the Network's range that no other subnet overlaps.

One worker assigns ranges, from the status of all Subnets of the Network and from assignments that the cache does not
show yet. A Subnet keeps its range for as long as it exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tarmac.api.conditions import find, holds, with_condition
from tarmac.api.networking.names import API_VERSION
from tarmac.api.networking.network import (
    Network,
    NetworkContext,
    Subnet,
    SubnetClaim,
    SubnetClaimStatus,
    SubnetSpec,
    SubnetStatus,
)
from tarmac.api.shared import Condition, LocalObjectReference, ObjectMeta, OwnerReference
from tarmac.api.status import AlreadyExists, NotFound
from tarmac.client.cache import Item
from tarmac.client.targets.typed import NETWORK_CONTEXTS, NETWORKS, SUBNET_CLAIMS, SUBNETS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.indexes import BY_CONTEXT, BY_NETWORK, context_of_claim, network_of_context
from tarmac.controllers.network.networks import MANAGER
from tarmac.controllers.writes import write_status
from tarmac.decide import reasons
from tarmac.decide.addresses import carve, range_of
from tarmac.decide.verdict import Refusal, Verdict


class SubnetController:
    """Two loops, for claims and subnets, by key; a claim and its Subnet have the same key."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._clock = client.clock
        self._claims = client.resource(SUBNET_CLAIMS)
        self._subnets = client.resource(SUBNETS)
        self._known_claims = informers.informer(SUBNET_CLAIMS)
        self._known_claims.add_index(BY_CONTEXT, context_of_claim)
        self._known = informers.informer(SUBNETS)
        self._known.add_index(BY_CONTEXT, context_of_claim)
        self._contexts = informers.informer(NETWORK_CONTEXTS)
        self._contexts.add_index(BY_NETWORK, network_of_context)
        self._networks = informers.informer(NETWORKS)
        self._pending: dict[str, tuple[str, str]] = {}  # by uid: network and range, written but not observed yet
        self._known.on_change(self._observe)
        self._claim_loop = context.controller("subnet-claim", self.reconcile_claim)
        self._claim_loop.watches(self._known_claims)
        self._claim_loop.watches(self._known)
        self._claim_loop.watches(self._contexts, lambda item: self._of(item, self._known_claims.indexed))
        self._subnet_loop = context.controller("subnet", self.reconcile_subnet, workers=1)
        self._subnet_loop.watches(self._known)
        self._subnet_loop.watches(self._known_claims)
        self._subnet_loop.watches(self._contexts, lambda item: self._of(item, self._known.indexed))
        self._subnet_loop.watches(self._networks, self._waiting_for)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claim_loop.run())
            group.create_task(self._subnet_loop.run())

    def _of(self, item: Item[NetworkContext], indexed: Callable[[str, str], Sequence[Item[Any]]]) -> list[str]:
        return [each.key for each in indexed(BY_CONTEXT, item.key)]

    def _waiting_for(self, item: Item[Network]) -> list[str]:
        """Return the subnets of a network without a range."""
        return [each.key for each in self._subnets_of(item.key) if not range_of(each.object.status)]

    def _subnets_of(self, network: str) -> Iterator[Item[Subnet]]:
        for context in self._contexts.indexed(BY_NETWORK, network):
            yield from self._known.indexed(BY_CONTEXT, context.key)

    # Claims.

    async def reconcile_claim(self, key: str) -> None:
        """Create the Subnet of one claim, and write its state into the claim's status."""
        claim = self._known_claims.get(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return
        subnet = self._known.get(key)
        if subnet is None:
            context = self._contexts.get(f"{claim.metadata.namespace}/{claim.spec.network_context.name}")
            # A Subnet created now would hold up the deletion of its context.
            if context is not None and context.metadata.deletion_timestamp is None:
                await self._make(claim, context)
        await write_status(self._claims, claim.metadata, claim.status, self._claimed(claim, subnet), MANAGER)

    async def _make(self, claim: SubnetClaim, context: NetworkContext) -> None:
        own, wanted = context.metadata, claim.spec
        subnet = Subnet(
            metadata=ObjectMeta(
                name=claim.metadata.name,
                namespace=claim.metadata.namespace,
                owner_references=[OwnerReference(API_VERSION, "NetworkContext", own.name, own.uid, True, True)],
            ),
            spec=SubnetSpec(
                subnet_class=wanted.subnet_class,
                network_context=wanted.network_context,
                location=wanted.location,
                ip_family=wanted.ip_family,
                start_address=wanted.start_address,
                prefix_length=wanted.prefix_length,
            ),
        )
        try:
            await self._subnets.create(subnet, manager=MANAGER)
        except AlreadyExists:
            return

    def _claimed(self, claim: SubnetClaim, subnet: Subnet | None) -> SubnetClaimStatus:
        known, got = claim.status or SubnetClaimStatus(), subnet.status if subnet else None
        ready = find(got.conditions if got else (), "Ready")
        condition = Condition("Ready", "False", reasons.SUBNET_NOT_READY, "Subnet is not ready")
        if ready is not None and ready.status == "True":
            condition = Condition("Ready", "True", reasons.SUBNET_READY, "Subnet ready")
        elif ready is not None:
            condition = Condition("Ready", "False", ready.reason, ready.message)
        condition.observed_generation = claim.metadata.generation
        return SubnetClaimStatus(
            observed_generation=claim.metadata.generation,
            conditions=with_condition(known.conditions, condition, self._clock.now()),
            subnet_ref=LocalObjectReference(subnet.metadata.name) if subnet else None,
            start_address=got.start_address if got else "",
            prefix_length=got.prefix_length if got else None,
        )

    # Subnets.

    async def reconcile_subnet(self, key: str) -> None:
        """Assign a range to one Subnet."""
        subnet = self._known.get(key)
        if subnet is None or subnet.metadata.deletion_timestamp is not None or _is_done(subnet):
            return
        verdict = self._range_for(subnet)
        status = self._observed(subnet, verdict)
        # Recorded before the write: its outcome may stay unknown, and the cache shows it only later.
        if verdict.value is not None:
            self._pending[subnet.metadata.uid] = self._network_of(subnet), verdict.value
        try:
            written = await write_status(self._subnets, subnet.metadata, subnet.status, status, MANAGER)
        except NotFound:
            written = None
        # Nothing was written: the range is free, or the status has it already.
        if written is None:
            self._pending.pop(subnet.metadata.uid, None)

    def _network_of(self, subnet: Subnet) -> str:
        namespace = subnet.metadata.namespace
        context = self._contexts.get(f"{namespace}/{subnet.spec.network_context.name}")
        return f"{namespace}/{context.spec.network.name}" if context else ""

    def _range_for(self, subnet: Subnet) -> Verdict[str]:
        kept = range_of(subnet.status)
        # Never changed: Instances carry addresses of it.
        if kept:
            return Verdict(kept)
        key, spec = self._network_of(subnet), subnet.spec
        network = self._networks.get(key)
        have = network.status if network else None
        whole = "" if have is None else have.ipv4_range if spec.ip_family == "IPv4" else have.ipv6_range
        if not whole:
            return Verdict(None, (Refusal(reasons.SUBNET_NOT_READY, f"The network has no {spec.ip_family} range."),))
        taken = [found for each in self._subnets_of(key) if (found := range_of(each.object.status))]
        # Without its own: a write that failed is tried again, and would find its range taken by itself.
        others = (given for uid, given in self._pending.items() if uid != subnet.metadata.uid)
        taken += [given for of, given in others if of == key]
        return carve(whole, taken, spec.prefix_length, spec.start_address)

    def _observed(self, subnet: Subnet, verdict: Verdict[str]) -> SubnetStatus:
        known, generation = subnet.status or SubnetStatus(), subnet.metadata.generation
        if verdict.value is None:
            refusal = verdict.refusals[0]
            condition = Condition("Ready", "False", refusal.reason, refusal.message, None, generation)
            return SubnetStatus(generation, with_condition(known.conditions, condition, self._clock.now()))
        message = "Subnet has been allocated a prefix"
        condition = Condition("Ready", "True", reasons.PREFIX_ALLOCATED, message, None, generation)
        start, _, prefix = verdict.value.partition("/")
        conditions = with_condition(known.conditions, condition, self._clock.now())
        return SubnetStatus(generation, conditions, start, int(prefix))

    def _observe(self, old: Item[Subnet] | None, new: Item[Subnet] | None) -> None:
        """Drop an assignment once the Subnet's status shows it, or the Subnet is deleted."""
        if new is None and old is not None:
            self._pending.pop(old.metadata.uid, None)
        elif new is not None and new.metadata.uid in self._pending and range_of(new.object.status):
            del self._pending[new.metadata.uid]


def _is_done(subnet: Subnet) -> bool:
    status = subnet.status
    return status is not None and bool(range_of(status)) and holds(status.conditions, "Ready")
