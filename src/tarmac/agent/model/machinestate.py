"""The state of virtual machines on a node, between the part that probes QEMU and the part that reports the result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineState:
    """The condition `MachinesReady`, with reason and message."""

    ready: bool
    reason: str
    message: str
