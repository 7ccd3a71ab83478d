"""The devices of the node, their health, and the number of each kind.

A plugin's list replaces its previous one. A plugin that goes away, or is not back since the agent started, leaves its
devices for `GRACE` seconds: they still count as capacity, but are not allocated. After that the kind is gone, and
recorded as such, so that it is removed from the node's status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from tarmac.agent.model.devices import DeviceAmounts
from tarmac.base.clock import Clock

GRACE: Final = 300.0

Health = Literal["Healthy", "Unhealthy", "Unknown"]


class _Kind:
    """Devices of one resource. `left_at`: time at which the plugin was lost."""

    __slots__ = ("devices", "left_at", "listed")

    def __init__(self, devices: Mapping[str, bool], left_at: float | None) -> None:
        self.devices = devices  # True if healthy
        self.left_at = left_at
        self.listed = False  # since the plugin registered


class Inventory:
    """The devices of this node. `registered`: those known to an earlier agent."""

    def __init__(self, clock: Clock, registered: Mapping[str, Sequence[str]]) -> None:
        self._clock = clock
        now = clock.monotonic()
        self._kinds = {name: _Kind(dict.fromkeys(ids, False), now) for name, ids in registered.items() if ids}
        self._gone = {name for name, ids in registered.items() if not ids}

    def __len__(self) -> int:
        return len(self._kinds)

    def connected(self, resource: str) -> None:
        """Record a new plugin for this kind, which will list its devices."""
        known = self._kinds.get(resource)
        # Unhealthy until the new plugin lists them: the list of its predecessor may be out of date.
        self._kinds[resource] = _Kind(dict.fromkeys(known.devices if known else (), False), None)
        self._gone.discard(resource)

    def listed(self, resource: str, devices: Mapping[str, bool]) -> frozenset[str]:
        """Store a plugin's list; return the devices with a changed health."""
        kind = self._kinds[resource]
        before, kind.devices, kind.listed = kind.devices, devices, True
        return frozenset(device for device in {*before, *devices} if before.get(device) != devices.get(device))

    def disconnected(self, resource: str) -> None:
        """Record the loss of a plugin."""
        kind = self._kinds[resource]
        kind.left_at = self._clock.monotonic()

    def knows(self, resource: str) -> bool:
        """Return True if this is a kind of devices."""
        return resource in self._kinds or resource in self._gone

    def is_awaited(self, resource: str) -> bool:
        """Return True if a plugin is known from before, or registered, and has not listed its devices yet."""
        kind = self._kinds.get(resource)
        return kind is not None and not kind.listed

    def awaited(self) -> set[str]:
        """Return the kinds with such a plugin."""
        return {name for name in self._kinds if self.is_awaited(name)}

    def healthy(self, resource: str) -> Mapping[str, bool]:
        """Return the devices available for allocation, in the plugin's order."""
        kind = self._kinds.get(resource)
        if kind is None or kind.left_at is not None:
            return {}
        return {device: True for device, healthy in kind.devices.items() if healthy}

    def health(self, resource: str, device: str) -> Health:
        """Return the health of one device. It is unknown without a plugin."""
        kind = self._kinds.get(resource)
        if kind is None or kind.left_at is not None or not kind.listed:
            return "Unknown"
        return "Healthy" if kind.devices.get(device) else "Unhealthy"

    def amounts(self) -> DeviceAmounts:
        """Return the current amounts."""
        self._expire()
        return DeviceAmounts(
            {name: len(kind.devices) for name, kind in self._kinds.items()},
            {name: len(self.healthy(name)) for name in self._kinds},
            frozenset(self._gone),
        )

    def registered(self) -> dict[str, list[str]]:
        """Return the state for the next agent: the devices of each kind, none for those that are gone."""
        return {name: list(kind.devices) for name, kind in self._kinds.items()} | {name: [] for name in self._gone}

    def _expire(self) -> None:
        now = self._clock.monotonic()
        over = [name for name, each in self._kinds.items() if each.left_at is not None and now - each.left_at >= GRACE]
        for name in over:
            del self._kinds[name]
            self._gone.add(name)
