"""The runtime of a node with the static CPU policy.

Containers get their CPUs when they are created, and again right before they start, because the shared pool may have
changed since. No container starts before its CPUs are vacated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tarmac.agent.cpumanager.manager import CPUManager
from tarmac.agent.cpumanager.placement import CpuPlacer
from tarmac.base.cpuset import CPUSet
from tarmac.runtimes.forwarding import ForwardingRuntime
from tarmac.runtimes.interface import ContainerConfig, Resources, Runtime, SandboxConfig


class PinningRuntime(ForwardingRuntime):
    """Implements `Runtime`."""

    def __init__(self, runtime: Runtime, cpus: CPUManager, placement: CpuPlacer) -> None:
        super().__init__(runtime)
        self._cpus = cpus
        self._placement = placement
        self._cpus_at_creation: dict[str, CPUSet] = {}  # CPUs of created containers that have not started, by id

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        """Run a sandbox, confined by its pod's cgroup from its first process on."""
        uid = config.pod.uid
        await self._placement.vacate(uid)
        with self._placement.beginning(uid, self._cpus.of_pod(uid) or CPUSet(), config.cgroup_parent):
            return await super().run_sandbox(config, handler)

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create the container with its current CPUs."""
        uid = sandbox.pod.uid
        self._cpus.claim(uid)
        cpus = self._cpus.of_container(uid, config.name)
        config = replace(config, resources=replace(config.resources, cpuset_cpus=str(cpus)))
        made = await super().create_container(sandbox_id, config, sandbox)
        # After the create, with the CPUs it was given: `start_container` updates it if they have changed since.
        self._cpus_at_creation[made] = cpus
        self._placement.add_container(made, uid, config.name)
        return made

    async def start_container(self, id: str) -> None:
        """Start the container after its CPUs are vacated. One created by an earlier agent gets its CPUs first."""
        uid, name = await self._placement.owner_of(id)
        await self._placement.vacate(uid)
        # Repeated: the shared pool may change again during the update, and the container would start on taken CPUs.
        while self._cpus_at_creation.get(id) != (cpus := self._cpus.of_container(uid, name)):
            await super().update_container(id, Resources(cpuset_cpus=str(cpus)))
            self._cpus_at_creation[id] = cpus
        # From here on these CPUs cannot be taken away before the start: `vacate` waits for it.
        with self._placement.beginning(uid, self._cpus.of_pod(uid) or cpus):
            await super().start_container(id)
        self._cpus_at_creation.pop(id, None)

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        """Update limits with the current CPUs: the runtime would restore older ones otherwise."""
        cpus = self._cpus.of_container(*await self._placement.owner_of(id))
        limits = replace(resources, cpuset_cpus=str(cpus)) if resources else None
        await super().update_container(id, limits, classes)

    async def remove_container(self, id: str) -> None:
        await super().remove_container(id)
        # Only after success: a container that stays needs its CPUs again at the next start.
        self._cpus_at_creation.pop(id, None)
        self._placement.remove_container(id)
