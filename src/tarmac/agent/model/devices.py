"""Devices without reference to plugins: amounts, and the devices of a container. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tarmac.decide.amounts import Amounts
from tarmac.runtimes.interface import Device, Mount


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """Devices of one container from all plugins. `cdi` are device names that the runtime resolves."""

    envs: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


NO_DEVICES: Final = ContainerDevices()


class DeviceAmounts(NamedTuple):
    """Capacity and allocatable by resource name, and resources that no longer exist here."""

    capacity: Amounts
    allocatable: Amounts
    gone: frozenset[str]


NO_AMOUNTS: Final = DeviceAmounts({}, {}, frozenset())
