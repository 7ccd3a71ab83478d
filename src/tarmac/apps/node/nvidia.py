"""NVIDIA's GPUs as part of a node: the supervised device plugin, its events, and the condition `GPUsSandboxable`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.devices.nvidia.gpumetrics import InUse, gpu_metrics
from tarmac.agent.devices.nvidia.supervising import NvidiaSupervisor, Tell, command
from tarmac.agent.model.gpus import GpuSandboxState
from tarmac.agent.stats.summary import Sample
from tarmac.api.schema import JsonObject
from tarmac.apps.gpudriver import node_gpu_sandboxes
from tarmac.base.clock import Clock
from tarmac.base.gates import SANDBOXED_GPUS

SWITCHED_OFF: Final = GpuSandboxState(
    False, "SwitchedOff", f"the feature gate {SANDBOXED_GPUS} of this node's agent is off; switch it on"
)
REPORT: Final = "nvidia.json"


class NodeGpus:
    """The GPUs of a node with NVIDIA's driver. Create it with `find_gpus`."""

    def __init__(self, config: AgentConfig, version: str, clock: Clock, tell: Tell) -> None:
        flags = config.flags
        report = flags.run_dir / REPORT
        arguments = command(flags.device_plugin_dir, report, flags.nvidia_names)
        self.supervisor = NvidiaSupervisor(arguments, report, clock, tell)
        self._version = version
        self._closed = not config.gates.enabled(SANDBOXED_GPUS)
        self._state: GpuSandboxState | None = None

    def state(self) -> GpuSandboxState | None:
        """Return the condition. Asks gVisor once: its table of drivers is compiled in."""
        if self._state is None:
            self._state = SWITCHED_OFF if self._closed else node_gpu_sandboxes(self._version)
        return self._state

    def metrics(
        self, node: str, in_use: InUse, pods: Callable[[], Sequence[JsonObject]]
    ) -> Callable[[], Iterator[Sample]]:
        """Return a source of the figures of each GPU."""
        return gpu_metrics(node, lambda: self.supervisor.report, in_use, pods)

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks, by name."""
        return {"NVIDIA device plugin": self.supervisor.run, "GPU report": self.supervisor.watch}
