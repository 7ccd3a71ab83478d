"""How large the node is: what the machine has, what is held back of it now, and what pods may have.

Everybody who needs one of these asks here each time, because what is held back may change while the node runs. The
numbers are the ledger's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tarmac.agent.config.reading import BadConfig
from tarmac.agent.model.devices import NO_AMOUNTS, DeviceAmounts
from tarmac.api.kubernetes.core.nodeclasses import NOTHING, OfferedClasses
from tarmac.decide.allocatable.accounts import NodeLedger, NodeSize, PodEntry
from tarmac.decide.allocatable.ledger import node_ledger, objections, sized
from tarmac.decide.allocatable.reservations import PID, Reservations
from tarmac.decide.scheduling.amounts import Amounts


class NodeSizes:
    """The node's sizes as of now; making them raises BadConfig. `processes`: how many the machine can have.

    `exclusive`: how many processors may be given to containers for themselves; None where the policy gives none.
    `devices` says how many there are, whenever it is asked.
    """

    def __init__(
        self, capacity: Mapping[str, int], processes: int, reservations: Reservations, exclusive: int | None = None
    ) -> None:
        self.capacity: Amounts = dict(capacity)
        self.processes = processes
        self.exclusive = exclusive
        self.devices: Callable[[], DeviceAmounts] = lambda: NO_AMOUNTS
        self.reservations = self.fitting(reservations)

    def fitting(self, reservations: Reservations) -> Reservations:
        """The same if the machine has as much. Raises BadConfig."""
        if findings := objections(self._sized(reservations)):
            raise BadConfig(f"invalid Node Allocatable configuration. {' '.join(findings)}")
        return reservations

    def ledger(self, pods: Sequence[PodEntry] = (), offered: OfferedClasses = NOTHING) -> NodeLedger:
        """Every number of the node, with these pods on it."""
        return node_ledger(self._sized(self.reservations), pods, offered)

    @property
    def enforced(self) -> Amounts:
        """What all pods together can get at most."""
        return self.ledger().amounts("enforced")

    @property
    def pids(self) -> int:
        """How many processes all pods together may have."""
        return self.enforced[PID]

    def _sized(self, reservations: Reservations) -> NodeSize:
        devices = self.devices()
        failing = {name: number - devices.allocatable[name] for name, number in devices.capacity.items()}
        capacity = {**self.capacity, **devices.capacity, PID: self.processes}
        return sized(capacity, reservations, exclusive=self.exclusive, failing_devices=failing)
