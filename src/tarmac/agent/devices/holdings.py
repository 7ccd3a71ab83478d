"""Devices in use. Containers of one pod may have the same one, one after the other; pods never share."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import NamedTuple


class DeviceHolder(NamedTuple):
    """A container that has devices of one kind."""

    uid: str
    container: str
    resource: str


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """The devices, and the plugin's answer to their allocation: None until it has come."""

    ids: tuple[str, ...]
    answer: bytes | None = None


class DeviceHoldings:
    """All devices in use. No method awaits, so a choice is made in one step of the event loop."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[DeviceHolder, HeldDevices]] = {}

    def __iter__(self) -> Iterator[tuple[DeviceHolder, HeldDevices]]:
        for entries in self._pods.values():
            yield from entries.items()

    @property
    def uids(self) -> Set[str]:
        """Pods with devices."""
        return self._pods.keys()

    def of(self, uid: str) -> dict[DeviceHolder, HeldDevices]:
        """Return the devices of one pod."""
        return self._pods.get(uid, {})

    def get(self, holder: DeviceHolder) -> HeldDevices | None:
        """Return the devices of one kind of one container."""
        return self.of(holder.uid).get(holder)

    def put(self, holder: DeviceHolder, held: HeldDevices) -> None:
        """Set or replace the devices of a container."""
        self._pods.setdefault(holder.uid, {})[holder] = held

    def take(self, holder: DeviceHolder) -> None:
        """Free a container's devices of one kind."""
        entries = self.of(holder.uid)
        entries.pop(holder, None)
        if not entries:
            self._pods.pop(holder.uid, None)

    def release(self, uid: str) -> bool:
        """Free a pod's devices. Return True if it had any."""
        return self._pods.pop(uid, None) is not None

    def in_use(self, resource: str) -> dict[str, str]:
        """Return the pod of each device."""
        return {device: holder.uid for holder, held in self if holder.resource == resource for device in held.ids}

    def knows(self, resource: str) -> bool:
        """Return True if such a device is in use."""
        return any(holder.resource == resource for holder, _ in self)
