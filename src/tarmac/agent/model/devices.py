"""Devices, for those who know nothing of plugins: how many there are, what a container gets. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tarmac.decide.scheduling.amounts import Amounts
from tarmac.runtimes.interface import Device, Mount


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """Of one container, of all plugins together. `cdi` are names of devices that the runtime looks up itself."""

    envs: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


NO_DEVICES: Final = ContainerDevices()


class DeviceAmounts(NamedTuple):
    """How many devices of each kind there are and may be asked for, and kinds that are here no longer."""

    capacity: Amounts
    allocatable: Amounts
    gone: frozenset[str]


NO_AMOUNTS: Final = DeviceAmounts({}, {}, frozenset())
