"""Informers of networks, reduced to the few fields that matter here.

A change without an effect on those fields, such as a new status of a pod, wakes nothing.

Pods of this node come from the informer that the pod loop has anyway, since their interfaces and ports are created
here; of pods elsewhere the node may read only their PodEndpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tarmac.agent.network.compiler.networks import NetworkSnapshot
from tarmac.api.declare import decoder
from tarmac.api.networking.names import LABEL_ZONE
from tarmac.api.networking.network import Network
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.client.cache import Item
from tarmac.client.envelope import metadata_of
from tarmac.client.feed import Feed, Kept
from tarmac.client.informer import Informer, Informers
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import (
    ENDPOINT_SLICES,
    KUBERNETES_POLICIES,
    NAMESPACES,
    NETWORK_POLICIES,
    NETWORKS,
    NODES,
    POD_ENDPOINTS,
    PODS,
    SERVICES,
    TUNNEL_ENDPOINTS,
)
from tarmac.client.watch import Change
from tarmac.decide.reach.members import NetworkPod, member_of, remote_member
from tarmac.decide.reach.partialobjects import decode_service, decode_slice, kubernetes_policy_of, policy_of

T = TypeVar("T")


class NetworkInformers:
    """All inputs of networks. `changed` is called whenever one of them differs.

    Pods come and go all over the cluster: only changes count for which `concerns`, given the pod before and after, is
    true.
    """

    def __init__(
        self,
        informers: Informers,
        node: str,
        changed: Callable[[], None],
        concerns: Callable[[NetworkPod | None, NetworkPod | None], bool],
    ) -> None:
        def moved(_: str, before: NetworkPod | None, after: NetworkPod | None) -> None:
            if concerns(before, after):
                changed()

        def kept(
            target: Target[Any],
            read: Callable[[bytes], T | None],
            on_change: Callable[[str, T | None, T | None], None] = lambda *_: changed(),
        ) -> Kept[T]:
            sink = Kept(lambda change: read(change.raw), on_change)
            feed = informers.feed(target)
            feed.add(sink)
            self._feeds.append(feed)
            return sink

        self._feeds: list[Feed] = []
        # The same informer as the pod loop's: another one would hold each pod of the node twice.
        self._own_pods = informers.informer(PODS, fields=f"spec.nodeName={node}")
        self.own = _follow(self._own_pods, Kept(lambda change: member_of(change.raw), moved))
        self._node = informers.informer(NODES, fields=f"metadata.name={node}")
        self._zone = _follow(self._node, Kept(lambda change: _labels(change.raw).get(LABEL_ZONE), lambda *_: changed()))
        self.others = kept(POD_ENDPOINTS, lambda raw: remote_member(raw, node), moved)
        self.networks = kept(NETWORKS, decoder(Network))
        self.policies = kept(NETWORK_POLICIES, policy_of)
        self.kubernetes_policies = kept(KUBERNETES_POLICIES, kubernetes_policy_of)
        self.services = kept(SERVICES, decode_service)
        self.slices = kept(ENDPOINT_SLICES, decode_slice)
        self.namespaces = kept(NAMESPACES, _labels)
        self.endpoints = kept(TUNNEL_ENDPOINTS, decoder(TunnelEndpoint))

    async def synced(self) -> None:
        """Wait until all informers have synced."""
        await self._own_pods.synced()
        await self._node.synced()
        for feed in self._feeds:
            await feed.synced()

    def snapshot(self) -> NetworkSnapshot:
        """Return a copy of the current state, for a thread to read while the original changes."""
        return NetworkSnapshot(
            members=[*self.own.by_key.values(), *self.others.by_key.values()],
            networks=dict(self.networks.by_key),
            policies=[*self.policies.by_key.values(), *self.kubernetes_policies.by_key.values()],
            namespaces=dict(self.namespaces.by_key),
            services=list(self.services.by_key.values()),
            slices=list(self.slices.by_key.values()),
            zone=next(iter(self._zone.by_key.values()), ""),
            endpoints=dict(self.endpoints.by_key),
        )


def _follow(informer: Informer[Any], sink: Kept[T]) -> Kept[T]:
    """Forward an informer's changes to a sink."""

    def forward(old: Item[Any] | None, new: Item[Any] | None) -> None:
        item = new or old
        assert item is not None
        sink.changed(Change("DELETED" if new is None else "MODIFIED", item.metadata, item.raw))

    informer.on_change(forward)
    return sink


def _labels(raw: bytes) -> dict[str, str]:
    return metadata_of(raw).labels or {}
