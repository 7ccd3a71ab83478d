"""What a node's ledger is made from and what it says. How the one becomes the other stands in `ledger`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.reservations import Holding
from tarmac.decide.classes.counting import Place
from tarmac.decide.scheduling.amounts import Amounts

UNEXPLAINED: Final = "unexplained"
"""The purpose of what is held back on a node that does not say for whom."""


@dataclass(frozen=True, slots=True)
class PodEntry:
    """A pod that has not ended. `cpus` and `classes` by container; classes of the pod as a whole under the name ""."""

    namespace: str
    name: str
    requests: Mapping[str, int]
    weight: int = 0
    """Of its processor time against others, as `cpu.shares` counts it."""
    cpus: Mapping[str, CPUSet] = field(default_factory=dict[str, CPUSet])
    """Processors that a container has to itself."""
    classes: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    places: Mapping[Place, int] = field(default_factory=dict[Place, int])
    """How many places it takes in each class."""


@dataclass(frozen=True, slots=True)
class NodeSize:
    """What is known of a node but for its pods: what the machine has, and what is held back of it.

    `allocatable` is given where the node itself has said it; else it follows. `exclusive`: how many processors, in
    thousandths, may be given to containers for themselves; None where none are.
    """

    capacity: Mapping[str, int]
    holdings: Mapping[str, Sequence[Holding]] = field(default_factory=dict[str, Sequence[Holding]])
    oversubscription: int = 0
    exclusive: int | None = None
    allocatable: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class ExclusiveAccount:
    """Processors that containers have to themselves."""

    capacity: int
    committed: int


@dataclass(frozen=True, slots=True)
class ResourceAccount:
    """One resource. `enforced` is None where nobody says what is reserved for whom, `used` where nobody measures."""

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
        """How much is held back, for these purposes or in all."""
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
    """Everything of one node, in the order in which it was given."""

    resources: tuple[ResourceAccount, ...]
    classes: tuple[ClassAccount, ...]
    pods: tuple[PodEntry, ...]

    def __getitem__(self, resource: str) -> ResourceAccount:
        return next(each for each in self.resources if each.resource == resource)

    def amounts(self, step: Literal["capacity", "allocatable", "enforced", "committed"]) -> Amounts:
        """One column: of every resource that has it."""
        found = ((each.resource, getattr(each, step)) for each in self.resources)
        return {resource: amount for resource, amount in found if amount is not None}
