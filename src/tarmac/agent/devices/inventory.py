"""Which devices there are, how they are, and how many of each kind the node has.

A plugin's list replaces the one before it. A plugin that goes away, or is not back since the agent started, leaves its
devices for `GRACE` seconds: they still count as capacity, none of them is given out. After that the kind is gone, and
is remembered as such, so that the node's status loses what it once said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from tarmac.agent.model.devices import DeviceAmounts
from tarmac.base.clock import Clock

GRACE: Final = 300.0

Health = Literal["Healthy", "Unhealthy", "Unknown"]


class _Kind:
    """Devices of one resource. `left_at`: since when no plugin stands for them."""

    __slots__ = ("devices", "left_at", "listed")

    def __init__(self, devices: Mapping[str, bool], left_at: float | None) -> None:
        self.devices = devices  # whether each is healthy
        self.left_at = left_at
        self.listed = False  # since the plugin came


class Inventory:
    """The devices of this node. `registered`: those that an earlier agent knew of."""

    def __init__(self, clock: Clock, registered: Mapping[str, Sequence[str]]) -> None:
        self._clock = clock
        now = clock.monotonic()
        self._kinds = {name: _Kind(dict.fromkeys(ids, False), now) for name, ids in registered.items() if ids}
        self._gone = {name for name, ids in registered.items() if not ids}

    def __len__(self) -> int:
        return len(self._kinds)

    def came(self, resource: str) -> None:
        """A plugin stands for this kind now, and will list its devices."""
        known = self._kinds.get(resource)
        self._kinds[resource] = _Kind(dict.fromkeys(known.devices if known else (), False), None)
        self._gone.discard(resource)

    def listed(self, resource: str, devices: Mapping[str, bool]) -> frozenset[str]:
        """A plugin's list; the devices whose health is not what it was."""
        kind = self._kinds[resource]
        before, kind.devices, kind.listed = kind.devices, devices, True
        return frozenset(device for device in {*before, *devices} if before.get(device) != devices.get(device))

    def left(self, resource: str) -> None:
        """The plugin is gone."""
        kind = self._kinds[resource]
        kind.left_at = self._clock.monotonic()

    def knows(self, resource: str) -> bool:
        """Whether this is a kind of devices."""
        return resource in self._kinds or resource in self._gone

    def is_awaited(self, resource: str) -> bool:
        """Whether a plugin has stood for it before, or does now, and has not listed its devices yet."""
        kind = self._kinds.get(resource)
        return kind is not None and not kind.listed

    def awaited(self) -> set[str]:
        """Kinds of which that is so."""
        return {name for name in self._kinds if self.is_awaited(name)}

    def healthy(self, resource: str) -> Mapping[str, bool]:
        """The devices that can be given out, in the plugin's order."""
        kind = self._kinds.get(resource)
        if kind is None or kind.left_at is not None:
            return {}
        return {device: True for device, healthy in kind.devices.items() if healthy}

    def health(self, resource: str, device: str) -> Health:
        """Of one device. Nobody knows it while no plugin stands for it."""
        kind = self._kinds.get(resource)
        if kind is None or kind.left_at is not None or not kind.listed:
            return "Unknown"
        return "Healthy" if kind.devices.get(device) else "Unhealthy"

    def amounts(self) -> DeviceAmounts:
        """As of now."""
        self._expire()
        return DeviceAmounts(
            {name: len(kind.devices) for name, kind in self._kinds.items()},
            {name: len(self.healthy(name)) for name in self._kinds},
            frozenset(self._gone),
        )

    def registered(self) -> dict[str, list[str]]:
        """What the next agent has to know: the devices of each kind, none for those that are gone."""
        return {name: list(kind.devices) for name, kind in self._kinds.items()} | {name: [] for name in self._gone}

    def _expire(self) -> None:
        now = self._clock.monotonic()
        over = [name for name, each in self._kinds.items() if each.left_at is not None and now - each.left_at >= GRACE]
        for name in over:
            del self._kinds[name]
            self._gone.add(name)
