"""How large the node is: what the machine has, what is held back of it now, and what pods may have.

Everybody who needs one of these asks here each time, because what is held back may change while the node runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.agent.config.reading import BadConfig
from tarmac.decide.allocatable.reservations import (
    PID,
    Reservations,
    enforced,
    objections,
    processes_for_pods,
    schedulable,
)
from tarmac.decide.scheduling.amounts import Amounts


class NodeSizes:
    """The node's sizes as of now; making them raises BadConfig. `processes`: how many the machine can have."""

    def __init__(self, capacity: Mapping[str, int], processes: int, reservations: Reservations) -> None:
        self.capacity: Amounts = dict(capacity)
        self.processes = processes
        self.reservations = self.fitting(reservations)

    def fitting(self, reservations: Reservations) -> Reservations:
        """The same if the machine has as much. Raises BadConfig."""
        if findings := objections({**self.capacity, PID: self.processes}, reservations):
            raise BadConfig(f"invalid Node Allocatable configuration. {' '.join(findings)}")
        return reservations

    @property
    def allocatable(self) -> Amounts:
        """What pods may ask for in all."""
        return schedulable(self.capacity, self.reservations)

    @property
    def enforced(self) -> Amounts:
        """What all pods together can get at most."""
        return enforced(self.capacity, self.reservations)

    @property
    def pids(self) -> int:
        """How many processes all pods together may have."""
        return processes_for_pods(self.processes, self.reservations)
