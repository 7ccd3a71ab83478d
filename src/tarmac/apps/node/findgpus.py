"""Finds NVIDIA's driver on a node. Without one, the agent loads nothing that serves GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.devices.nvidia.gpunames import checked_names
from tarmac.agent.devices.nvidia.kerneldriver import driver_version
from tarmac.base.clock import Clock

if TYPE_CHECKING:
    from tarmac.agent.devices.nvidia.supervising import Tell
    from tarmac.apps.node.nvidia import NodeGpus


def find_gpus(config: AgentConfig, clock: Clock, tell: Tell, root: Path = Path("/")) -> NodeGpus | None:
    """Return the GPUs; None without a driver, or if they are switched off. Raises BadConfig."""
    try:
        checked_names(config.flags.nvidia_names)
    except ValueError as error:
        raise BadConfig(f"--nvidia-names: {error}") from error
    version = driver_version(root) if config.flags.nvidia == "auto" else ""
    if not version:
        return None
    # imported here: an agent without GPUs saves the supervisor, the report and the metrics
    from tarmac.apps.node.nvidia import NodeGpus

    return NodeGpus(config, version, clock, tell)
