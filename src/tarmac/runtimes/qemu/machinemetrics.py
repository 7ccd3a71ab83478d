"""Metrics of machines, kept as plain numbers and named when `/metrics` is scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tarmac.base.metrics import Histogram

_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_START = "tarmac_machine_start_seconds"

Sample = tuple[str, str, Mapping[str, str], float]
"""Name, type, labels, value."""

_UNLABELLED: Mapping[str, str] = {}


class MachineMetrics:
    """Metrics of all machines since the agent started."""

    def __init__(self) -> None:
        self.started = Histogram(_BOUNDS)
        """Seconds from the start request until QEMU answers."""
        self.served = Histogram(_BOUNDS)
        """Seconds from the start request until the pod is ready; once per start, for machines started by this agent."""
        self.guest_resets = 0
        self.qmp_failures = 0
        self._ends = Counter[str]()
        self._booting: dict[str, float] = {}  # time of the start request, by the pod's uid

    def boots(self, pod_uid: str, asked: float, now: float) -> None:
        """Record that QEMU answers; the guest is not ready yet."""
        self.started.observe(now - asked)
        self._booting[pod_uid] = asked

    def serves(self, pod_uid: str, now: float) -> None:
        """Record that the pod is ready. Repeated calls have no effect."""
        if (asked := self._booting.pop(pod_uid, None)) is not None:
            self.served.observe(now - asked)

    def ended(self, reason: str, pod_uid: str = "") -> None:
        """Count an exit; the machine will not become ready any more."""
        self._ends[reason] += 1
        self._booting.pop(pod_uid, None)

    def samples(self, states: Counter[str], sessions: Counter[str], image_bytes: int) -> Iterator[Sample]:
        """Yield all samples. Passed in: machines by state, sessions by kind, and the bytes used by images."""
        for state in ("created", "running", "exited"):
            yield "tarmac_machines", "gauge", {"state": state}, states[state]
        for reason, count in sorted(self._ends.items()):
            yield "tarmac_machine_ends_total", "counter", {"reason": reason}, count
        yield "tarmac_machine_guest_resets_total", "counter", _UNLABELLED, self.guest_resets
        yield "tarmac_machine_qmp_failures_total", "counter", _UNLABELLED, self.qmp_failures
        for kind, count in sorted(sessions.items()):
            yield "tarmac_machine_console_sessions", "gauge", {"kind": kind}, count
        yield "tarmac_machine_image_bytes", "gauge", _UNLABELLED, image_bytes
        for phase, histogram in (("process", self.started), ("ready", self.served)):
            for name, labels, value in histogram.samples(_START, [("phase", phase)]):
                yield name, "histogram", dict(labels), value
