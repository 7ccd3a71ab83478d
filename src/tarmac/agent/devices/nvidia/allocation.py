"""The settings of a container that gets GPUs: device nodes, driver files, variables. Pure.

Nothing here depends on a container's own variables: `NVIDIA_VISIBLE_DEVICES` in a manifest selects nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tarmac.agent.devices.nvidia.driverfiles import LIBRARIES, PROGRAMS, DriverFile
from tarmac.agent.devices.nvidia.kerneldriver import CONTROL_NODES, Gpu, host_path
from tarmac.agent.devices.nvidia.pluginmessages import ContainerSettings


def container_settings(
    gpus: Sequence[Gpu], files: Iterable[DriverFile], root: Path, capabilities: Sequence[str]
) -> ContainerSettings:
    """Return the answer to `Allocate` for one container."""
    nodes = [*(gpu.node for gpu in gpus), *CONTROL_NODES]
    return ContainerSettings(
        envs={
            "NVIDIA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in gpus),
            "NVIDIA_DRIVER_CAPABILITIES": ",".join(capabilities),
            # The node completes these two with what the image and the manifest have.
            "LD_LIBRARY_PATH": LIBRARIES,
            "PATH": PROGRAMS,
        },
        mounts=[(each.host, each.container) for each in files],
        devices=[(str(host_path(root, node)), node) for node in nodes],
    )
