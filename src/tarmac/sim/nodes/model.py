"""Model of a simulated node: its reported sizes and classes, and whether it checks pods at admission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tarmac.api.kubernetes.core.nodeclasses import NOTHING, OfferedClasses
from tarmac.api.kubernetes.core.nodedevices import NodeDevices
from tarmac.api.kubernetes.runtimeclasses import (
    HOST_CLASS,
    MACHINE_CLASS,
    NVIDIA_HANDLER,
    PROXIED_PREFIX,
    SANDBOX_CLASS,
)
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.topology import Topology
from tarmac.decide.qosclasses.offers import published
from tarmac.sim.nodes.settings import STORAGE_OF_A_NODE, NodeShape

HANDLERS: Final = ("", HOST_CLASS, SANDBOX_CLASS, NVIDIA_HANDLER, MACHINE_CLASS)
"""Runtime handlers that every node has."""
FALLEN_OFF: Final = 79
"""The XID of a GPU that has fallen off the bus."""


@dataclass(frozen=True)
class NodeModel:
    """One type of node. `given_away`: the CPUs available for exclusive use; None where all are shared.

    `judges`: pods are admitted or rejected as by an agent; otherwise every bound pod is accepted. `sandboxes_gpus`:
    False where gVisor does not know the driver of the GPUs. `unhealthy`: the number of unhealthy devices of each
    resource; `xid` is the error that made GPUs among them so.
    """

    sizes: JsonObject
    offered: OfferedClasses = NOTHING
    topology: Topology = field(default_factory=lambda: Topology.flat(()))
    given_away: CPUSet | None = None
    judges: bool = True
    sandboxes_gpus: bool = True
    unhealthy: Mapping[str, int] = field(default_factory=dict[str, int])
    xid: int = FALLEN_OFF

    @staticmethod
    def plain(shape: NodeShape) -> NodeModel:
        """Return a model without reservations: pods may use the whole machine."""
        amounts = {
            "cpu": str(shape.cpu),
            "memory": shape.memory,
            "pods": str(shape.pods),
            "ephemeral-storage": STORAGE_OF_A_NODE,
            **{name: str(count) for name, count in shape.devices},
        }
        return NodeModel({"capacity": amounts, "allocatable": amounts}, judges=False)

    def status(self) -> JsonObject:
        """Return the model's part of a Node's status."""
        return {**self.sizes, **published(self.offered)}

    @property
    def devices(self) -> NodeDevices:
        """Its extended resources. A virtual machine has its own kernel, to which no device is passed."""
        named = (name for name in self.sizes["capacity"] if "/" in name)
        passing = frozenset(HANDLERS) - {MACHINE_CLASS}
        return NodeDevices(
            frozenset(named), passing if self.sandboxes_gpus else passing - {SANDBOX_CLASS, NVIDIA_HANDLER}
        )

    @property
    def gpus(self) -> dict[str, int]:
        """The number of NVIDIA's GPUs of each resource."""
        amounts = sorted(self.sizes["capacity"].items())
        return {name: int(count) for name, count in amounts if name.startswith(PROXIED_PREFIX)}

    @property
    def handlers(self) -> tuple[str, ...]:
        """Its runtime handlers."""
        return tuple(each for each in HANDLERS if self.sandboxes_gpus or each != NVIDIA_HANDLER)
