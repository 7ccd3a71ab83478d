"""What sandboxes and containers use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RuntimeUsage:
    """What a container or sandbox uses, at `at` (Unix seconds). `cpu` is core-seconds since its start."""

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
    """Tells what is used. Each call raises RuntimeFault."""

    async def container_usage(self) -> Sequence[RuntimeUsage]:
        """Of each container that runs."""
        ...

    async def sandbox_usage(self) -> Sequence[RuntimeUsage]:
        """Of each sandbox, its containers included."""
        ...
