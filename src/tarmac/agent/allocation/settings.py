"""What allotments depend on beside the pod."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.agent.model.limits import NONE, PERIOD


@dataclass(frozen=True, slots=True)
class AllocationSettings:
    """Of the machine and of the agent's configuration."""

    memory_capacity: int = 0
    """Bytes of memory that the node has; 0: nobody knows."""
    pids: int = NONE
    """The most processes of a pod."""
    enforce_cpu: bool = True
    """Whether the CPU limits of pods are quotas of their cgroups."""
    period: int = PERIOD
    """Of these quotas, in microseconds."""
