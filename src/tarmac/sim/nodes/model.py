"""What a simulated node is: what it says of its sizes and classes, and whether it looks at pods before taking them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, NOTHING, OfferedClasses
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.decide.processors.topology import Topology
from tarmac.sim.nodes.settings import STORAGE_OF_A_NODE, NodeShape


@dataclass(frozen=True)
class NodeModel:
    """One sort of node. `given_away`: processors that containers can have to themselves; None where all are shared.

    `judges`: pods are let in or refused as an agent does; else everything that is bound is taken.
    """

    sizes: JsonObject
    offered: OfferedClasses = NOTHING
    topology: Topology = field(default_factory=lambda: Topology.flat(()))
    given_away: CPUSet | None = None
    judges: bool = True

    @staticmethod
    def plain(shape: NodeShape) -> NodeModel:
        """A machine of which pods may have everything."""
        amounts = {
            "cpu": str(shape.cpu),
            "memory": shape.memory,
            "pods": str(shape.pods),
            "ephemeral-storage": STORAGE_OF_A_NODE,
            **{name: str(count) for name, count in shape.devices},
        }
        return NodeModel({"capacity": amounts, "allocatable": amounts}, judges=False)

    def status(self) -> JsonObject:
        """Its part of a Node's status."""
        types = [
            {"name": kind, "classes": [_named(name, capacity) for name, capacity in offered.classes.items()]}
            for kind, offered in self.offered.container.items()
        ]
        return {**self.sizes, CONTAINER_LEVEL: types} if types else self.sizes


def _named(name: str, capacity: int | None) -> JsonObject:
    return {"name": name} if capacity is None else {"name": name, "capacity": capacity}
