"""Parameters for attaching an interface to a network at a location: VNI, MTU, subnets and routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tarmac.api.conditions import holds
from tarmac.api.networking.network import Network, NetworkContext, Subnet
from tarmac.api.networking.policy import InterfacePolicy
from tarmac.api.shared import IPFamily
from tarmac.client.informer import Informers
from tarmac.client.targets.typed import NETWORK_CONTEXTS, NETWORKS, SUBNETS
from tarmac.controllers.indexes import BY_CONTEXT, context_of_claim
from tarmac.controllers.ipam import Attachment
from tarmac.decide.addresses import range_of, routes_of


class Attaching:
    """Read access to Networks, contexts and subnets, and the attachments computed from them."""

    def __init__(self, informers: Informers) -> None:
        self.networks = informers.informer(NETWORKS)
        self.contexts = informers.informer(NETWORK_CONTEXTS)
        self.subnets = informers.informer(SUBNETS)
        self.subnets.add_index(BY_CONTEXT, context_of_claim)
        self.informers = (self.networks, self.contexts, self.subnets)

    def attachment(
        self,
        name: str,
        network: Network,
        context: NetworkContext,
        families: Sequence[IPFamily],
        policy: InterfacePolicy | None = None,
    ) -> Attachment | None:
        """Return the attachment without routes, or None while a family has no ready subnet."""
        subnets = self._ranges(context)
        # All families or none: interfaces are never changed, so one created now would lack a family for ever.
        if not subnets.keys() >= set(families):
            return None
        key = f"{network.metadata.namespace}/{network.metadata.name}"
        # The context's MTU is limited by the nodes of the Location. With the Network's own, large packets would be lost
        # on the way.
        mtu = (context.status.mtu if context.status else 0) or network.spec.mtu
        vni = network.status.vni if network.status else 0
        return Attachment(name, key, vni, mtu, {family: subnets[family] for family in families}, policy)

    def leading(self, attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
        """Return the attachments of one pod with their routes, which depend on all of them."""
        routes = routes_of([self._reach(each) for each in attachments])
        return tuple(replace(each, routes=leads) for each, leads in zip(attachments, routes, strict=True))

    def _reach(self, attachment: Attachment) -> list[str]:
        network = self.networks.get(attachment.network)
        status = network.status if network is not None else None
        if status is None:
            return list(attachment.ranges.values())
        whole: dict[IPFamily, str] = {"IPv4": status.ipv4_range, "IPv6": status.ipv6_range}
        return [whole[family] or subnet for family, subnet in attachment.ranges.items()]

    def _ranges(self, context: NetworkContext) -> dict[IPFamily, str]:
        key = f"{context.metadata.namespace}/{context.metadata.name}"
        subnets = [item.object for item in self.subnets.indexed(BY_CONTEXT, key)]
        return {subnet.spec.ip_family: found for subnet in subnets if (found := _range(subnet))}


def _range(subnet: Subnet) -> str:
    return range_of(subnet.status) if subnet.status and holds(subnet.status.conditions, "Ready") else ""
