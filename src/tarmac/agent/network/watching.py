"""What the API says about networks, each object as the few fields that matter here.

A change that makes no difference to those fields, such as a new status of a pod, wakes nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tarmac.agent.network.compiling.facts import decode_service, decode_slice, policy_of
from tarmac.agent.network.compiling.members import Member, member_of
from tarmac.agent.network.compiling.networks import Snapshot
from tarmac.api.declare import decoder
from tarmac.api.networking.names import API_VERSION
from tarmac.api.networking.network import Network
from tarmac.client.envelope import metadata_of
from tarmac.client.feed import Feed, Kept
from tarmac.client.informer import Informers
from tarmac.client.targets import NAMESPACES, PODS, Target, dynamic

T = TypeVar("T")

_NETWORKS = dynamic(API_VERSION, "networks", "Network")
_POLICIES = dynamic(API_VERSION, "networkpolicies", "NetworkPolicy")
_SERVICES = dynamic("v1", "services", "Service")
_SLICES = dynamic("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")


class Watching:
    """Everything that networks are made of. `changed` is called whenever some of it is different.

    Pods come and go all over the cluster: only what `concerns` says matters here, of a pod before and after, counts.
    """

    def __init__(
        self,
        informers: Informers,
        changed: Callable[[], None],
        concerns: Callable[[Member | None, Member | None], bool],
    ) -> None:
        def moved(_: str, before: Member | None, after: Member | None) -> None:
            if concerns(before, after):
                changed()

        def kept(
            target: Target[Any],
            read: Callable[[bytes], T | None],
            told: Callable[[str, T | None, T | None], None] = lambda *_: changed(),
        ) -> Kept[T]:
            sink = Kept(lambda change: read(change.raw), told)
            feed = informers.feed(target)
            feed.add(sink)
            self._feeds.append(feed)
            return sink

        self._feeds: list[Feed] = []
        self.members = kept(PODS, member_of, moved)
        self.networks = kept(_NETWORKS, decoder(Network))
        self.policies = kept(_POLICIES, policy_of)
        self.services = kept(_SERVICES, decode_service)
        self.slices = kept(_SLICES, decode_slice)
        self.namespaces = kept(NAMESPACES, _labels)

    async def synced(self) -> None:
        """Wait until all of it is known."""
        for feed in self._feeds:
            await feed.synced()

    def snapshot(self) -> Snapshot:
        """It, as of now."""
        return Snapshot(
            members=list(self.members.by_key.values()),
            networks=self.networks.by_key,
            policies=list(self.policies.by_key.values()),
            namespaces=self.namespaces.by_key,
            services=list(self.services.by_key.values()),
            slices=list(self.slices.by_key.values()),
        )


def _labels(raw: bytes) -> dict[str, str]:
    return metadata_of(raw).labels or {}
