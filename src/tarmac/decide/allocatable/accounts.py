"""Input and output types of a node's ledger. `ledger` computes one from the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.reservations import Holding
from tarmac.decide.amounts import Amounts
from tarmac.decide.qosclasses.counting import Place

UNEXPLAINED: Final = "unexplained"
"""The purpose of a holding on a node that does not report its reservations."""


@dataclass(frozen=True, slots=True)
class PodEntry:
    """A pod that has not ended. `cpus` and `classes` by container; classes of the pod as a whole under the name ""."""

    namespace: str
    name: str
    requests: Mapping[str, int]
    weight: int = 0
    """CPU weight relative to other pods, in units of `cpu.shares`."""
    cpus: Mapping[str, CPUSet] = field(default_factory=dict[str, CPUSet])
    """Exclusive CPUs of each container."""
    classes: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    places: Mapping[Place, int] = field(default_factory=dict[Place, int])
    """Number of places it takes in each class."""


@dataclass(frozen=True, slots=True)
class NodeSize:
    """The size of a node without its pods: its capacity, and the amounts held back.

    `allocatable` is set if the node itself has reported it; else it is computed. `exclusive`: CPUs, in thousandths,
    that containers can have exclusively; None if the policy assigns none.
    """

    capacity: Mapping[str, int]
    holdings: Mapping[str, Sequence[Holding]] = field(default_factory=dict[str, Sequence[Holding]])
    oversubscription: int = 0
    exclusive: int | None = None
    allocatable: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class ExclusiveAccount:
    """Exclusive CPUs: how many there can be, and how many are assigned."""

    capacity: int
    committed: int


@dataclass(frozen=True, slots=True)
class ResourceAccount:
    """One resource.

    `enforced` is None if the purposes of its reservations are unknown, `used` if it is not measured.
    """

    resource: str
    capacity: int
    reserved: tuple[Holding, ...]
    oversubscription: int
    allocatable: int
    enforced: int | None
    exclusive: ExclusiveAccount | None
    committed: int
    used: int | None

    def held(self, *purposes: str) -> int:
        """Return the amount held back, for these purposes or in total."""
        return sum(each.amount for each in self.reserved if not purposes or each.purpose in purposes)


@dataclass(frozen=True, slots=True)
class ClassAccount:
    """One class of a type: its places, and how many are taken."""

    type: str
    name: str
    capacity: int | None
    used: int
    pod_level: bool


@dataclass(frozen=True, slots=True)
class NodeLedger:
    """All accounts of one node, in input order."""

    resources: tuple[ResourceAccount, ...]
    classes: tuple[ClassAccount, ...]
    pods: tuple[PodEntry, ...]

    def __getitem__(self, resource: str) -> ResourceAccount:
        return next(each for each in self.resources if each.resource == resource)

    def amounts(self, step: Literal["capacity", "allocatable", "enforced", "committed"]) -> Amounts:
        """Return one column: the amounts of every resource that has it."""
        found = ((each.resource, getattr(each, step)) for each in self.resources)
        return {resource: amount for resource, amount in found if amount is not None}
