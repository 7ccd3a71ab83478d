"""What the allocator answers: an allotment for the pod as a whole and one for each container. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tarmac.agent.model.devices import NO_DEVICES, ContainerDevices
from tarmac.agent.model.limits import PERIOD, Limits
from tarmac.runtimes.interface import Resources

NOBODYS_OWN: Final = ""
"""The processors of a container that has none to itself: those that all share."""

Refusal = tuple[str, str]
"""Reason and message for a pod that may not run here."""


class NotGiven(Exception):
    """A container cannot be made yet, because something it was promised is not there."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """Why a resize cannot be had: not now, or never on this node."""

    reason: Literal["Deferred", "Infeasible"]
    message: str


@dataclass(frozen=True, slots=True)
class ContainerAllotment:
    """What one container is given. `memory` and `quota` are 0 without a limit; times in microseconds."""

    shares: int
    quota: int
    memory: int
    oom_score: int
    period: int = PERIOD
    cpus: str = NOBODYS_OWN  # a list of processors: 2-3
    classes: Mapping[str, str] = field(default_factory=dict[str, str])  # the class of each type
    devices: ContainerDevices = NO_DEVICES

    def resources(self) -> Resources:
        """As the runtime is told."""
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
    """What a pod is given: `limits` are those of its own cgroup, which is above those of its containers."""

    uid: str
    quality: str  # of service: Guaranteed, Burstable, BestEffort
    limits: Limits
    burstable: int  # what it adds to the weight of all burstable pods, in thousandths of a processor
    containers: Mapping[str, ContainerAllotment]
    cpus: str = NOBODYS_OWN  # of the sandbox, where all processes are in one cgroup
    classes: Mapping[str, str] = field(default_factory=dict[str, str])
