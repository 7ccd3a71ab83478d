"""Settings of simulated nodes and of their pods' behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tarmac.base.duration import parse_duration
from tarmac.base.randomness import Randomness

Range = tuple[float, float]

STORAGE_OF_A_NODE = "1Ti"

OWN_ANNOTATIONS = "sim.tarmac/"
"""Prefix of annotations that control a simulated pod's behaviour."""

CRASH_AFTER = "sim.tarmac/crash-after"
"""Annotation of a pod: time from each start to a crash, such as 5s."""

CRASHES = "sim.tarmac/crashes"
"""Annotation of a pod with `CRASH_AFTER`: how many times it crashes; without it, each time."""

EXIT_AFTER = "sim.tarmac/exit-after"
"""Annotation of a pod: time from each start to the end of its programs with exit code 0, such as 5s."""

ENDINGS = (CRASH_AFTER, EXIT_AFTER)

BOOT = "sim.tarmac/boot"
"""Annotation of a virtual machine's pod: time until it is ready, such as 90s."""

PANIC_AFTER = "sim.tarmac/panic-after"
"""Annotation of a virtual machine's pod: time from each readiness to a panic of its operating system."""

FAILING_PROBES = "sim.tarmac/failing-probes"
"""Annotation of a pod: the kinds of its containers' probes that fail, such as `readiness` or `startup,liveness`."""

FAULT = "sim.tarmac/fault"
"""Annotation of a node: `dead` (no power) or `cut` (unreachable); without it the node recovers."""

HOST_THAT_NEVER_ANSWERS = ".invalid"
"""Images of registries below this domain cannot be pulled."""


BACKOFF_RESET_SECONDS = 600.0
"""A container that ran for longer restarts without back-off when it crashes."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The size of a node."""

    cpu: int = 32
    memory: str = "128Gi"
    pods: int = 110
    devices: tuple[tuple[str, int], ...] = (("datumcloud.com/nvidia-tesla-a100", 8),)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Durations in seconds, drawn from a range, and failure probabilities per start."""

    start: Range = (0.2, 1.5)  # from bound to running and ready
    boot: float = 8.0  # of a virtual machine, from running to ready
    stop: Range = (0.05, 0.4)  # from the deletion request to the end
    lifetime: Range = (5.0, 60.0)  # of a start that fails
    fails: float = 0.0  # the container exits with an error, once
    crash_loops: float = 0.0  # it exits after every start, a few times
    out_of_memory: float = 0.0  # it is OOM-killed
    backoff: Range = (10.0, 300.0)  # first and longest delay before a restart


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """Interval of lease renewals, and the duration of each. Seconds."""

    interval: float = 10.0
    duration: float = 40.0

    @classmethod
    def for_fleet(cls, nodes: int, grace: float = 40.0) -> HeartbeatSettings:
        """Return settings with four renewals within the node grace period, as kubelet has.

        All nodes together send at most a hundred renewals a second.
        """
        interval = max(grace / 4, nodes / 100)
        return cls(interval, 4 * interval)


@dataclass(frozen=True, slots=True)
class SimLocation:
    """A Location and its number of nodes."""

    name: str  # of the Location
    city: str
    nodes: int

    def node_names(self) -> list[str]:
        """Return `dfw-0`, `dfw-1`, …"""
        return [f"{self.name}-{number}" for number in range(self.nodes)]


def drawn(randomness: Randomness, between: Range) -> float:
    """Return a random number in a range."""
    return randomness.uniform(*between)


def duration_of(text: str) -> float:
    """Return the duration in an annotation; one second if it cannot be parsed."""
    try:
        return parse_duration(text)
    except ValueError:
        return 1.0


class PodExit(NamedTuple):
    """The end of a pod's programs, `delay` seconds after their start."""

    delay: float
    code: int
    reason: str


def ending_of(annotations: Mapping[str, str], restarts: int) -> PodExit | None:
    """Return the end that the annotations of a pod ask for, which has restarted so often."""
    times = annotations.get(CRASHES, "")
    if CRASH_AFTER in annotations and (not times.isdecimal() or restarts < int(times)):
        return PodExit(duration_of(annotations[CRASH_AFTER]), 1, "Error")
    return PodExit(duration_of(annotations[EXIT_AFTER]), 0, "Completed") if EXIT_AFTER in annotations else None
