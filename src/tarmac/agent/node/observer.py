"""Gathers the facts that a Node's status is made from. Nothing here raises: a failed query is a fact, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.model.gpus import GpuSandboxState
from tarmac.agent.model.machinestate import MachineState
from tarmac.agent.model.tunnelstate import TunnelState
from tarmac.agent.node.detectedaddresses import node_addresses
from tarmac.agent.node.hostfacts import HostFacts, capacity
from tarmac.agent.node.nodestatus import NodeStatusFacts
from tarmac.agent.node.runtimehealth import RuntimeHealth
from tarmac.agent.node.sizes import NodeSizes
from tarmac.api.kubernetes.core.nodedevices import NodeDevices
from tarmac.api.schema import JsonObject
from tarmac.decide.amounts import Amounts
from tarmac.runtimes.interface import Image, RuntimeStatus


class Observer:
    """Gathers facts of the node.

    `images` and `pressures` return the current ones; `problems` return reasons why pods cannot run. `classes` returns
    the offered classes, given the runtime's last status.
    """

    def __init__(
        self,
        config: AgentConfig,
        machine: HostFacts,
        sizes: NodeSizes,
        health: RuntimeHealth,
        images: Callable[[], Sequence[Image]],
        pressures: Callable[[], frozenset[str]],
        problems: Sequence[Callable[[], str]] = (),
        classes: Callable[[RuntimeStatus | None], JsonObject] = lambda _status: {},
        tunnels: Callable[[], TunnelState | None] = lambda: None,
        machines: Callable[[], MachineState | None] = lambda: None,
        gpus: Callable[[], GpuSandboxState | None] = lambda: None,
    ) -> None:
        self._config = config
        self._machine = machine
        self._sizes = sizes
        self._health = health
        self._images = images
        self._pressures = pressures
        self._problems = problems
        self._classes = classes
        self._tunnels = tunnels
        self._machines = machines
        self._gpus = gpus

    async def __call__(self) -> NodeStatusFacts:
        """Return the facts as of now."""
        # The only await: all facts below are of one moment.
        await self._health.refresh()
        problems = [self._health.unready, *(trouble() for trouble in self._problems)]
        devices = self._sizes.devices()
        return NodeStatusFacts(
            machine=self._machine,
            ledger=self._sizes.ledger(),
            addresses=node_addresses(self._config.flags.node_ips, self._config.node_name),
            port=self._config.kubelet.port,
            runtime=self._health.status,
            unready=", ".join(trouble for trouble in problems if trouble),
            images=self._images(),
            max_images=self._config.kubelet.node_status_max_images,
            pressures=self._pressures(),
            gone=devices.gone,
            devices=NodeDevices(frozenset(devices.capacity), self._health.device_handlers()),
            offered=self._classes(self._health.status),
            tunnels=self._tunnels(),
            machines=self._machines(),
            gpus=self._gpus(),
        )


def node_capacity(config: AgentConfig, machine: HostFacts) -> Amounts:
    """Return the node's capacity. Pods write below the root directory, so its file system is their storage."""
    files = os.statvfs(config.root_dir)
    storage = files.f_blocks * files.f_frsize
    return capacity(machine, storage, config.kubelet.max_pods, config.kubelet.pods_per_core)
