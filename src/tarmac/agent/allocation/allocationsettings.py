"""Inputs of allotments besides the pod."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.agent.model.cgrouplimits import NONE, PERIOD


@dataclass(frozen=True, slots=True)
class AllocationSettings:
    """Settings from the host and the agent's configuration."""

    memory_capacity: int = 0
    """Bytes of memory of the node; 0 if unknown."""
    pids: int = NONE
    """Maximum number of processes of a pod."""
    enforce_cpu: bool = True
    """True if CPU limits of pods are enforced as cgroup quotas."""
    period: int = PERIOD
    """The period of these quotas, in microseconds."""
