"""If sandboxes can use this machine's GPUs: whether there is a driver, and whether runsc knows it."""

from __future__ import annotations

from pathlib import Path

from tarmac.agent.devices.nvidia.kerneldriver import driver_version
from tarmac.agent.model.gpus import GpuSandboxState
from tarmac.runtimes.nvproxy import known_drivers, nearest
from tarmac.runtimes.parts import NodeParts, PartMissing, find_parts

DRIVER_KNOWN, DRIVER_UNKNOWN, NO_GVISOR = "DriverKnown", "DriverUnknown", "NoGVisor"


def passes_gpus(parts: NodeParts) -> bool:
    """Return True if sandboxes of these parts can use this machine's GPUs."""
    version = driver_version()
    return bool(version) and gpu_sandboxes(version, parts.runsc).sandboxable


def node_gpu_sandboxes(version: str) -> GpuSandboxState:
    """Return the state of this machine's own gVisor, for a driver."""
    try:
        return gpu_sandboxes(version, find_parts().runsc)
    except PartMissing as missing:
        return GpuSandboxState(False, NO_GVISOR, str(missing))


def gpu_sandboxes(version: str, runsc: Path | None) -> GpuSandboxState:
    """Return the state for a driver and a runsc."""
    if runsc is None:
        return GpuSandboxState(False, NO_GVISOR, "there is no gVisor on this node: GPUs are for the RuntimeClass runc")
    known = known_drivers(runsc)
    if version in known:
        return GpuSandboxState(True, DRIVER_KNOWN, f"sandboxes can use NVIDIA's driver {version}")
    near = nearest(version, known) or "none"
    why = f"gVisor does not know NVIDIA's driver {version}, so GPUs are for the RuntimeClass runc only"
    return GpuSandboxState(False, DRIVER_UNKNOWN, f"{why}; install {near}, the nearest that it knows")
