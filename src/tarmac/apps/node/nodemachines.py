"""Virtual machines on a node: finds the driver's dependencies, tests them and reports the result.

A node has machines only if the agent connects pods itself and the dependencies are installed; otherwise it has only
the condition `MachinesReady`, with the cause. The test runs in the background: the node becomes ready without it, and
offers the handler after a kernel has booted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from tarmac.agent.cgroups.hierarchy import Hierarchy
from tarmac.agent.cgroups.machinegroups import MachineGroups
from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.model.machinestate import MachineState
from tarmac.agent.network.taps import MachineTaps
from tarmac.agent.stats.summary import Sample
from tarmac.api.compute.names import LABEL_ACCELERATOR
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.eventrecorder import EventType, InvolvedObject, Recorder
from tarmac.client.targets.untyped import NODES
from tarmac.datapath.interface import ROUTER
from tarmac.decide import reasons
from tarmac.runtimes.interface import RuntimeFault, RuntimeRefused
from tarmac.runtimes.parts import MachineParts, PartMissing, find_machine_parts
from tarmac.runtimes.qemu import vhost
from tarmac.runtimes.qemu.accelerator import AcceleratorProbe, probe
from tarmac.runtimes.qemu.dependencies import BootFiles
from tarmac.runtimes.qemu.images.guard import TenantNetworks
from tarmac.runtimes.qemu.images.store import NodeMachineImages
from tarmac.runtimes.qemu.qemuruntime import HANDLER, QemuRuntime
from tarmac.runtimes.qemu.records import PREFIX, MachineFolders, SandboxRecord
from tarmac.runtimes.routed import RoutedDriver
from tarmac.volumes.interface import VolumeNotReady

HOST_FILE: Final = Path("/run/tarmac/accelerator.json")
"""The accelerator of machines is a property of the host, shared by all nodes on it."""

_TRIAL_COMMAND_LINE = "console=ttyS0 quiet loglevel=4 no_timer_check panic=-1"
_LABEL_RETRY = 5.0
_EVER_SECONDS = 3600.0
_log = log("machines")

RecordEvent = Callable[[EventType, str, str], None]

NO_NETWORKS: Final = MachineState(
    False,
    reasons.CONNECTED_BY_PLUGINS,
    "network plugins connect the pods of this node; virtual machines need Networks that the agent makes",
)


def machine_folders(config: AgentConfig) -> MachineFolders:
    """Return the folders of an agent's machines."""
    return MachineFolders(config.flags.run_dir / "vm", config.root_dir / "machines")


class NodeMachines:
    """Machines of a node."""

    def __init__(
        self,
        config: AgentConfig,
        parts: MachineParts,
        hierarchy: Hierarchy,
        taps: MachineTaps,
        clock: Clock,
        recorder: Recorder,
    ) -> None:
        self._clock = clock
        self._state: MachineState | None = None
        self._folder = config.root_dir / "machine-images"
        flags = config.flags
        networks = TenantNetworks(flags.tenant_image_networks, flags.tenant_image_denied_networks)
        local = flags.machine_image_dir or parts.images
        self.images = NodeMachineImages(self._folder, local, networks, clock, flags.registry_hosts_dir)
        boot = BootFiles(parts.kernel, parts.initrd, _TRIAL_COMMAND_LINE)

        async def tried() -> AcceleratorProbe:
            return await probe(HOST_FILE, boot)

        groups = MachineGroups(hierarchy)
        self.runtime = QemuRuntime(
            machine_folders(config), taps, groups, self.images, clock, tried, ROUTER, partial(_rebooted, recorder)
        )

    @staticmethod
    def find(
        config: AgentConfig, hierarchy: Hierarchy, taps: MachineTaps | None, clock: Clock, recorder: Recorder
    ) -> NodeMachines | MachineState:
        """Return the machines of this node, or its condition if it can have none."""
        if taps is None:
            return NO_NETWORKS
        try:
            parts = find_machine_parts()
        except PartMissing as missing:
            _log.info("virtual machines are not available", why=str(missing))
            return not_installed(missing)
        return NodeMachines(config, parts, hierarchy, taps, clock, recorder)

    def state(self) -> MachineState | None:
        """Return the condition `MachinesReady`; None until the test has ended."""
        return self._state

    def driver(self) -> RoutedDriver:
        """Return the driver for the node's runtime."""
        return RoutedDriver(self.runtime, frozenset({HANDLER}), PREFIX)

    def status_heard(self, pod: JsonObject, status: JsonObject) -> None:
        """Count a machine that is ready."""
        if any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ()):
            self.runtime.machine_metrics.serves(pod["metadata"]["uid"], self._clock.monotonic())

    async def offer(self, client: Client, node: str, record_event: RecordEvent, wake: Callable[[], None]) -> None:
        """Test if machines run here, and report it: the node's label, events, and the handler."""
        try:
            probe_result = await self.runtime.probe()
        except RuntimeRefused as refusal:
            self._state = trial_failed(str(refusal))
            wake()
            record_event(
                "Warning",
                "RuntimeHandlerFailed",
                f"Runtime handler {HANDLER} does not work and is not offered: {refusal}",
            )
            await self._clock.sleep(_EVER_SECONDS)
            return
        self._state = running(probe_result)
        if probe_result.accelerator == "tcg":
            message = f"Virtual machines run here without the processor's support, and slowly: {probe_result.why}"
            record_event("Normal", "MachinesAreEmulated", message)
        if missing := vhost.why_not(probe_result.accelerator):
            message = (
                f"Frames of virtual machines go through QEMU, since the kernel's vhost-net cannot be had: {missing}"
            )
            record_event("Normal", "MachinesWithoutVhost", message)
        wake()
        await self._label(client, node, probe_result)
        while True:
            await self._clock.sleep(_EVER_SECONDS)

    async def grown(self, pod_uid: str, volume: str, size: int) -> None:
        """Announce the new size of a disk's file to the guest of a running machine. Raises VolumeNotReady."""
        try:
            await self.runtime.machines.resize_disk(pod_uid, volume, size)
        except RuntimeFault as fault:
            raise VolumeNotReady(volume, f"the machine does not see the new size yet: {fault}") from fault

    def metrics(self) -> Iterator[Sample]:
        """Return the samples for `/metrics`."""
        size = 0
        with suppress(OSError), os.scandir(self._folder) as entries:
            size = sum(each.stat(follow_symlinks=False).st_blocks * 512 for each in entries)
        return self.runtime.metrics(size)

    async def _label(self, client: Client, node: str, probe_result: AcceleratorProbe) -> None:
        patch = {"metadata": {"labels": {LABEL_ACCELERATOR: probe_result.accelerator}}}
        while True:
            try:
                await client.resource(NODES).patch(node, patch)
            except (ApiError, ClientError) as error:
                _log.debug("accelerator label cannot be set, will retry", why=str(error))
                await self._clock.sleep(_LABEL_RETRY)
            else:
                return

    async def close(self) -> None:
        """Stop downloading images. The driver is closed with the node's runtime, and machines continue to run."""
        await self.images.close()


def _rebooted(recorder: Recorder, sandbox: SandboxRecord) -> None:
    about = InvolvedObject("v1", "Pod", sandbox.name, sandbox.namespace, sandbox.pod_uid)
    recorder.event(about, "Normal", "Rebooted", "The guest started itself again; the machine was not restarted")


# The condition `MachinesReady` of a node, in words: the accelerator, or the cause and the command that removes it.


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
