"""Results of the allocator: an allotment for the pod and one for each container. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tarmac.agent.model.cgrouplimits import PERIOD, CgroupLimits
from tarmac.agent.model.devices import NO_DEVICES, ContainerDevices
from tarmac.runtimes.interface import Resources

SHARED_CPUS: Final = ""
"""The cpuset of a container without exclusive CPUs: the shared pool."""

Refusal = tuple[str, str]
"""Reason and message for a rejected pod."""


class AllocationRefused(Exception):
    """A container cannot be created yet: a resource allocated to it is missing."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """Reason why a resize cannot be made: not now, or never on this node."""

    reason: Literal["Deferred", "Infeasible"]
    message: str


@dataclass(frozen=True, slots=True)
class ContainerAllotment:
    """Resources of one container. `memory` and `quota` are 0 without a limit; times in microseconds."""

    shares: int
    quota: int
    memory: int
    oom_score: int
    period: int = PERIOD
    cpus: str = SHARED_CPUS  # a list of CPUs: 2-3
    classes: Mapping[str, str] = field(default_factory=dict[str, str])  # class by type
    devices: ContainerDevices = NO_DEVICES

    def resources(self) -> Resources:
        """Return the resources in the runtime's form."""
        return Resources(
            cpu_period=self.period,
            cpu_quota=self.quota,
            cpu_shares=self.shares,
            memory_limit=self.memory,
            oom_score_adj=self.oom_score,
            cpuset_cpus=self.cpus,
        )


@dataclass(frozen=True, slots=True)
class PodAllotment:
    """Resources of a pod: `limits` are those of its cgroup, the parent of its containers' cgroups."""

    uid: str
    quality: str  # QoS: Guaranteed, Burstable, BestEffort
    limits: CgroupLimits
    burstable: int  # its part of the weight of all burstable pods, in millicores
    containers: Mapping[str, ContainerAllotment]
    cpus: str = SHARED_CPUS  # of the sandbox, if all its processes share one cgroup
    classes: Mapping[str, str] = field(default_factory=dict[str, str])
