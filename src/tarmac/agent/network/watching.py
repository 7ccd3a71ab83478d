"""What the API says about networks, each object as the few fields that matter here.

A change that makes no difference to those fields, such as a new status of a pod, wakes nobody. The informers are shared
with the rest of the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from tarmac.agent.network.compiling.facts import (
    Member,
    Policy,
    Service,
    Slice,
    decode_service,
    decode_slice,
    member_of,
    policy_of,
)
from tarmac.agent.network.compiling.networks import Snapshot
from tarmac.api.declare import decoder
from tarmac.api.networking.names import API_VERSION
from tarmac.api.networking.network import Network
from tarmac.base.log import log
from tarmac.client.cache import Item
from tarmac.client.envelope import metadata_of
from tarmac.client.informer import Informers
from tarmac.client.targets import NAMESPACES, PODS, Target, dynamic

T = TypeVar("T")

_NETWORKS = dynamic(API_VERSION, "networks", "Network")
_POLICIES = dynamic(API_VERSION, "networkpolicies", "NetworkPolicy")
_SERVICES = dynamic("v1", "services", "Service")
_SLICES = dynamic("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")

_log = log("network")


class Kept(Generic[T]):
    """What `read` makes of each object of a kind, by key; None is not kept."""

    def __init__(self, read: Callable[[bytes], T | None], changed: Callable[[], None]) -> None:
        self.by_key: dict[str, T] = {}
        self._read = read
        self._changed = changed

    def follow(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        """Take one change, as informers tell it."""
        if new is None:
            assert old is not None, "a change has a state before or after it"
            self._keep(old.key, None)
        else:
            self._keep(new.key, self._readable(new))

    def _readable(self, item: Item[Any]) -> T | None:
        try:
            return self._read(item.raw)
        except msgspec.MsgspecError as error:
            _log.warning("unreadable object", key=item.key, error=str(error))
            return None

    def _keep(self, key: str, value: T | None) -> None:
        if self.by_key.get(key) == value:
            return
        if value is None:
            del self.by_key[key]
        else:
            self.by_key[key] = value
        self._changed()


class Watching:
    """Everything that networks are made of. `changed` is called whenever some of it is different."""

    def __init__(self, informers: Informers, changed: Callable[[], None]) -> None:
        self.members: Kept[Member] = Kept(member_of, changed)
        self.networks: Kept[Network] = Kept(decoder(Network), changed)
        self.policies: Kept[Policy] = Kept(policy_of, changed)
        self.services: Kept[Service] = Kept(decode_service, changed)
        self.slices: Kept[Slice] = Kept(decode_slice, changed)
        self.namespaces: Kept[dict[str, str]] = Kept(_labels, changed)
        kinds: tuple[tuple[Target[Any], Kept[Any]], ...] = (
            (PODS, self.members),
            (_NETWORKS, self.networks),
            (_POLICIES, self.policies),
            (_SERVICES, self.services),
            (_SLICES, self.slices),
            (NAMESPACES, self.namespaces),
        )
        self._informers = [informers.informer(target) for target, _ in kinds]
        for informer, (_, kept) in zip(self._informers, kinds, strict=True):
            informer.on_change(kept.follow)

    async def synced(self) -> None:
        """Wait until all of it is known."""
        for informer in self._informers:
            await informer.synced()

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
