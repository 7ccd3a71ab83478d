"""Resource usage of sandboxes and containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RuntimeUsage:
    """Usage of a container or sandbox, at `at` (Unix seconds). `cpu` is core-seconds since its start."""

    id: str
    at: float
    cpu: float
    memory_working_set: int
    memory_rss: int = 0
    memory_usage: int = 0
    disk: int = 0  # bytes of the writable layer
    inodes: int = 0
    received: int = 0  # bytes; sandboxes only
    transmitted: int = 0
    processes: int = 0


class UsageReports(Protocol):
    """Reports usage. Each call raises RuntimeFault."""

    async def container_usage(self) -> Sequence[RuntimeUsage]:
        """Return the usage of each running container."""
        ...

    async def sandbox_usage(self) -> Sequence[RuntimeUsage]:
        """Return the usage of each sandbox, its containers included."""
        ...
