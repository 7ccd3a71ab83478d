"""Runs the plugin: looks at the GPUs every few seconds, hears of XIDs by the kernel, and serves a socket per model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tarmac.agent.devices.nvidia.allocation import container_settings
from tarmac.agent.devices.nvidia.driverfiles import driver_files
from tarmac.agent.devices.nvidia.gpunames import NAMES, resource_of
from tarmac.agent.devices.nvidia.gpus import GpuState, GpuStates
from tarmac.agent.devices.nvidia.heldnodes import HeldNodes
from tarmac.agent.devices.nvidia.kerneldriver import driver_version, read_gpus
from tarmac.agent.devices.nvidia.kernellog import PATH, KernelLog, Slot
from tarmac.agent.devices.nvidia.plugin import ModelPlugin
from tarmac.agent.devices.nvidia.pluginmessages import ContainerSettings
from tarmac.agent.devices.nvidia.report import critical_before, report, write_report
from tarmac.agent.devices.nvidia.samples import GpuSample, NvmlUnavailable
from tarmac.agent.devices.nvidia.sampling import NvmlSampler, sampling_command
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.tasks import Tasks

INTERVAL: Final = 10.0
"""Seconds between two looks; each starts a program for a sample of the GPUs."""
_log = log("nvidia")


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Settings of the program."""

    folder: Path
    root: Path = Path("/")
    report: Path | None = None
    names: Mapping[str, str] = field(default_factory=lambda: dict(NAMES))
    capabilities: Sequence[str] = ("compute", "utility")
    interval: float = INTERVAL


class NvidiaPlugin:
    """All GPUs of this machine, as device plugins."""

    def __init__(self, settings: PluginSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._driver = driver_version(settings.root)
        self._sampler = NvmlSampler(sampling_command(settings.root, self._driver))
        self._without_nvml = ""
        self._kernel = KernelLog(settings.root / PATH, self._on_xid)
        self._held = HeldNodes(settings.root)
        critical = critical_before(settings.report) if settings.report else {}
        self.gpus = GpuStates(settings.root, clock.now, critical)
        self._plugins: dict[str, ModelPlugin] = {}
        self._tasks = Tasks()

    async def run(self) -> None:
        """Serve until cancelled."""
        _log.info("NVIDIA driver found", version=self._driver)
        try:
            while True:
                await self._look()
                await self._clock.sleep(self._settings.interval)
        finally:
            self._kernel.close()
            self._held.close()
            await self._tasks.close(1.0)

    async def _look(self) -> None:
        # On a thread: the kernel's pages of a GPU that hangs may hang too.
        found = await asyncio.to_thread(read_gpus, self._settings.root)
        changed = self.gpus.apply(found, await self._sampled([gpu.uuid for gpu in found]))
        self._serve_models()
        if changed:
            self._wake()
        healthy = [state.gpu for state in self.gpus.states.values() if state.healthy]
        await asyncio.to_thread(self._held.hold, healthy)
        # After the first look, which knows the slots; before it an XID would be of no GPU.
        self._kernel.ensure_open()
        self._write()

    async def _sampled(self, uuids: Sequence[str]) -> dict[str, GpuSample] | None:
        try:
            samples = await self._sampler.sample(uuids)
        except NvmlUnavailable as error:
            if str(error) != self._without_nvml:
                _log.warning("GPUs cannot be sampled", why=str(error))
            self._without_nvml = str(error)
            return None
        self._without_nvml = ""
        return samples

    def _on_xid(self, slot: Slot, xid: int) -> None:
        _log.warning("XID reported", gpu="{:04x}:{:02x}:{:02x}".format(*slot), xid=xid)
        if self.gpus.on_xid(slot, xid):
            self._wake()
        self._write()

    def _serve_models(self) -> None:
        for resource in {self._resource(state) for state in self.gpus.states.values()} - self._plugins.keys():
            plugin = ModelPlugin(
                self._settings.folder, resource, lambda own=resource: self._of(own), self._answer, self._clock
            )
            self._plugins[resource] = plugin
            self._tasks.begin(plugin.run(), f"plugin of {resource}")

    def _wake(self) -> None:
        for plugin in self._plugins.values():
            plugin.wake()

    def _write(self) -> None:
        path = self._settings.report
        if path is None:
            return
        try:
            names = dict(self._settings.names)
            write_report(path, report(self.gpus, self._driver, self._without_nvml, names, self._kernel.problem))
        except OSError as error:
            _log.warning("report cannot be written", path=str(path), why=str(error))

    def _of(self, resource: str) -> dict[str, GpuState]:
        return {uuid: state for uuid, state in self.gpus.states.items() if self._resource(state) == resource}

    def _resource(self, state: GpuState) -> str:
        return resource_of(state.gpu.product, self._settings.names)

    def _answer(self, states: Sequence[GpuState]) -> ContainerSettings:
        # Found for each container: an upgrade of the driver replaces its files.
        root, capabilities = self._settings.root, self._settings.capabilities
        files = driver_files(root, self._driver, capabilities)
        return container_settings([state.gpu for state in states], files, root, capabilities)


def check_driver(root: Path) -> str:
    """Return why there is nothing to offer; empty if there is."""
    if not driver_version(root):
        return f"{root / 'proc/driver/nvidia/version'}: NVIDIA's driver is not loaded on this machine; install it"
    if not read_gpus(root):
        return f"{root / 'proc/driver/nvidia/gpus'}: the driver serves no GPU; see `dmesg | grep NVRM`"
    return ""
