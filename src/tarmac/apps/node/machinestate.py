"""The condition `MachinesReady` of a node, in words: the accelerator, or the cause and the command that removes it."""

from __future__ import annotations

from typing import Final

from tarmac.agent.model.machines import MachineState
from tarmac.decide import reasons
from tarmac.runtimes.parts import PartMissing
from tarmac.runtimes.qemu.accelerator import AcceleratorProbe

NO_NETWORKS: Final = MachineState(
    False,
    reasons.CONNECTED_BY_PLUGINS,
    "network plugins connect the pods of this node; virtual machines need Networks that the agent makes",
)


def not_installed(missing: PartMissing) -> MachineState:
    """Return the state of a node without QEMU, or without the kernel to probe it with."""
    return MachineState(False, reasons.MACHINES_NOT_INSTALLED, f"{missing}; then restart the agent")


def trial_failed(why: str) -> MachineState:
    """Return the state of a node on which no kernel has booted."""
    return MachineState(False, reasons.MACHINE_TRIAL_FAILED, f"no kernel booted in a virtual machine: {why}")


def running(probe: AcceleratorProbe) -> MachineState:
    """Return the state of a node that offers machines."""
    how = f"emulated (tcg), which is slow: {probe.why}" if probe.accelerator == "tcg" else "by KVM (kvm)"
    return MachineState(True, reasons.MACHINES_RUN, f"virtual machines run {how}")
