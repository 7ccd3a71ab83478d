"""What simulated nodes look like, and how the pods on them behave."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.base.randomness import Randomness

Range = tuple[float, float]

STORAGE_OF_A_NODE = "1Ti"

OWN_ANNOTATIONS = "sim.tarmac/"
"""What annotations that tell a simulated pod how to behave begin with."""

CRASH_AFTER = "sim.tarmac/crash-after"
"""Annotation of a pod: how long after each start it crashes, such as 5s."""

BOOT = "sim.tarmac/boot"
"""Annotation of a virtual machine's pod: how long it runs before it is ready, such as 90s."""

PANIC_AFTER = "sim.tarmac/panic-after"
"""Annotation of a virtual machine's pod: how long after it is ready its operating system panics, each time."""

FAULT = "sim.tarmac/fault"
"""Annotation of a node: `dead` (it loses power) or `cut` (it cannot be reached); without it the node is well again."""

HOST_THAT_NEVER_ANSWERS = ".invalid"
"""Images of registries below this domain cannot be pulled."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The size of a node."""

    cpu: int = 32
    memory: str = "128Gi"
    pods: int = 110
    devices: tuple[tuple[str, int], ...] = (("datumcloud.com/nvidia-tesla-a100", 8),)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How long things take (seconds, drawn from a range) and how often they go wrong (probability of each start)."""

    start: Range = (0.2, 1.5)  # from bound to running and ready
    boot: float = 8.0  # of a virtual machine, from running to ready
    stop: Range = (0.05, 0.4)  # from asked to end until gone
    lifetime: Range = (5.0, 60.0)  # of a start that goes wrong
    fails: float = 0.0  # the container ends with an error, once
    crash_loops: float = 0.0  # it ends again after every start, a few times
    out_of_memory: float = 0.0  # it is killed for using too much memory
    backoff: Range = (10.0, 300.0)  # first and longest wait before a restart


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """How often a node renews its lease, and for how long each renewal holds. Seconds."""

    interval: float = 10.0
    duration: float = 40.0

    @classmethod
    def for_fleet(cls, nodes: int, grace: float = 40.0) -> HeartbeatSettings:
        """Four in the time after which a node counts as silent, as kubelet does, but no more than a hundred renewals a
        second for all nodes together."""
        interval = max(grace / 4, nodes / 100)
        return cls(interval, 4 * interval)


@dataclass(frozen=True, slots=True)
class SimLocation:
    """A Location and how many nodes it has."""

    name: str  # of the Location
    city: str
    nodes: int

    def node_names(self) -> list[str]:
        """`dfw-0`, `dfw-1`, …"""
        return [f"{self.name}-{number}" for number in range(self.nodes)]


def drawn(randomness: Randomness, between: Range) -> float:
    """A number out of a range."""
    return randomness.uniform(*between)
