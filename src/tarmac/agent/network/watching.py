"""What the API says about networks, kept as little as will do: pods of the whole cluster as a few fields each.

A change that makes no difference to those fields, such as a new status of a pod, wakes nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
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
from tarmac.client.client import Client
from tarmac.client.envelope import metadata_of
from tarmac.client.reflector import Reflector
from tarmac.client.targets import NAMESPACES, PODS, Target, dynamic
from tarmac.client.watch import Change

T = TypeVar("T")

_NETWORKS = dynamic(API_VERSION, "networks", "Network")
_POLICIES = dynamic(API_VERSION, "networkpolicies", "NetworkPolicy")
_SERVICES = dynamic("v1", "services", "Service")
_SLICES = dynamic("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")

_log = log("network")


class Kept(Generic[T]):
    """A sink that keeps what `read` makes of each object; None is not kept."""

    def __init__(self, read: Callable[[bytes], T | None], changed: Callable[[], None]) -> None:
        self.by_key: dict[str, T] = {}
        self._uids: dict[str, str] = {}
        self._read = read
        self._changed = changed

    def replaced(self, state: Iterable[Change]) -> None:
        """Take a whole new state."""
        gone = set(self.by_key)
        for change in state:
            gone.discard(change.metadata.key)
            self._put(change)
        for key in gone:
            self._drop(key)

    def changed(self, change: Change) -> None:
        """Take one change. A late word about an object whose name another has taken is none."""
        key = change.metadata.key
        if change.type != "DELETED":
            self._put(change)
        elif self._uids.get(key) == change.metadata.uid:
            self._drop(key)

    def _put(self, change: Change) -> None:
        key = change.metadata.key
        try:
            found = self._read(change.raw)
        except msgspec.MsgspecError as error:
            _log.warning("unreadable object", key=key, error=str(error))
            found = None
        if found is None:
            self._drop(key)
        elif self.by_key.get(key) != found:
            self.by_key[key], self._uids[key] = found, change.metadata.uid
            self._changed()

    def _drop(self, key: str) -> None:
        if self.by_key.pop(key, None) is not None:
            del self._uids[key]
            self._changed()


class Watching:
    """Everything that networks are made of. `changed` is called whenever some of it is different."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self.members: Kept[Member] = Kept(member_of, changed)
        self.networks: Kept[Network] = Kept(decoder(Network), changed)
        self.policies: Kept[Policy] = Kept(policy_of, changed)
        self.services: Kept[Service] = Kept(decode_service, changed)
        self.slices: Kept[Slice] = Kept(decode_slice, changed)
        self.namespaces: Kept[dict[str, str]] = Kept(_labels, changed)
        sinks: tuple[tuple[Target[Any], Kept[Any], bool], ...] = (
            (PODS, self.members, False),
            (_NETWORKS, self.networks, False),
            (_POLICIES, self.policies, False),
            (_SERVICES, self.services, False),
            (_SLICES, self.slices, False),
            (NAMESPACES, self.namespaces, True),
        )
        self._reflectors = [
            Reflector(client, target, sink, metadata_only=metadata_only) for target, sink, metadata_only in sinks
        ]

    async def run(self) -> None:
        """Keep in step until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Wait until all of it is known."""
        for reflector in self._reflectors:
            await reflector.synced.wait()

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
