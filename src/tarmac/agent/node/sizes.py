"""Sizes of the node: the machine's capacity, the current reservations, and the amounts for pods.

Callers query them each time, because reservations may change while the node runs. All numbers come from the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.model.devices import NO_AMOUNTS, DeviceAmounts
from tarmac.api.kubernetes.core.nodeclasses import NOTHING, OfferedClasses
from tarmac.decide.allocatable.accounts import NodeLedger, NodeSize, PodEntry
from tarmac.decide.allocatable.ledger import node_ledger, objections, sized
from tarmac.decide.allocatable.reservations import PID, Reservations
from tarmac.decide.amounts import Amounts


class NodeSizes:
    """The node's sizes as of now; the constructor raises BadConfig. `processes`: the machine's maximum.

    `exclusive`: number of CPUs available as exclusive CPUs; None if the policy gives none. `devices` returns the
    current number of devices.
    """

    def __init__(
        self,
        capacity: Mapping[str, int],
        processes: int,
        reservations: Reservations,
        exclusive: int | None = None,
        devices: Callable[[], DeviceAmounts] = lambda: NO_AMOUNTS,
    ) -> None:
        self.capacity: Amounts = dict(capacity)
        self.processes = processes
        self.exclusive = exclusive
        self.devices = devices
        self.reservations = self.fitting(reservations)

    def fitting(self, reservations: Reservations) -> Reservations:
        """Return the reservations if the machine has as much. Raises BadConfig."""
        if findings := objections(self._sized(reservations)):
            raise BadConfig(f"invalid Node Allocatable configuration. {' '.join(findings)}")
        return reservations

    def ledger(self, pods: Sequence[PodEntry] = (), offered: OfferedClasses = NOTHING) -> NodeLedger:
        """Return every number of the node, with these pods on it."""
        return node_ledger(self._sized(self.reservations), pods, offered)

    @property
    def enforced(self) -> Amounts:
        """The limits of all pods together."""
        return self.ledger().amounts("enforced")

    @property
    def pids(self) -> int:
        """The process limit of all pods together."""
        return self.enforced[PID]

    def _sized(self, reservations: Reservations) -> NodeSize:
        devices = self.devices()
        failing = {name: number - devices.allocatable[name] for name, number in devices.capacity.items()}
        capacity = {**self.capacity, **devices.capacity, PID: self.processes}
        return sized(capacity, reservations, exclusive=self.exclusive, failing_devices=failing)
