"""Runs the plugin: looks at the GPUs every few seconds, waits for XIDs on a thread, and serves a socket per model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tarmac.agent.devices.nvidia.allocation import container_settings
from tarmac.agent.devices.nvidia.driver import driver_version, read_gpus
from tarmac.agent.devices.nvidia.driverfiles import NVML, driver_files, library_folder
from tarmac.agent.devices.nvidia.gpus import GpuState, GpuStates
from tarmac.agent.devices.nvidia.messages import ContainerSettings
from tarmac.agent.devices.nvidia.names import NAMES, resource_of
from tarmac.agent.devices.nvidia.nvml import Nvml, NvmlMissing
from tarmac.agent.devices.nvidia.plugin import ModelPlugin
from tarmac.agent.devices.nvidia.report import critical_before, report, write_report
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.tasks import Tasks

INTERVAL: Final = 5.0
"""Seconds between two looks."""
_EVENT_WAIT: Final = 1.0
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
        self._nvml, self._without_nvml = _nvml(settings.root, self._driver)
        critical = critical_before(settings.report) if settings.report else {}
        self.gpus = GpuStates(settings.root, self._nvml, clock.now, critical)
        self._plugins: dict[str, ModelPlugin] = {}
        self._tasks = Tasks()
        self._heard: set[str] = set()

    async def run(self) -> None:
        """Serve until cancelled."""
        _log.info("NVIDIA driver found", version=self._driver, nvml=self._without_nvml or "loaded")
        try:
            while True:
                await self._look()
                await self._clock.sleep(self._settings.interval)
        finally:
            await self._tasks.close(1.0)

    async def _look(self) -> None:
        found, samples = await asyncio.to_thread(self.gpus.look)
        # Here and not in the thread: plugins read the states while it looks.
        changed = self.gpus.apply(found, samples)
        self._serve_models()
        if changed:
            self._wake()
        if self._nvml is not None and (unheard := set(self.gpus.states) - self._heard):
            self._listen(self._nvml, unheard)
        self._write()

    def _serve_models(self) -> None:
        for resource in {self._resource(state) for state in self.gpus.states.values()} - self._plugins.keys():
            plugin = ModelPlugin(
                self._settings.folder, resource, lambda own=resource: self._of(own), self._answer, self._clock
            )
            self._plugins[resource] = plugin
            self._tasks.begin(plugin.run(), f"plugin of {resource}")

    def _listen(self, nvml: Nvml, unheard: set[str]) -> None:
        first = not self._heard
        # Marked before the call: a GPU that NVML cannot watch is not tried again at every look.
        self._heard |= unheard
        if nvml.listen(sorted(unheard)) and first:
            self._tasks.begin(self._hear(nvml), "XIDs")

    async def _hear(self, nvml: Nvml) -> None:
        while True:
            # A cancellation leaves the thread in the library: the exit of the program waits for it up to _EVENT_WAIT.
            event = await asyncio.to_thread(nvml.wait, _EVENT_WAIT)
            if event is None:
                await self._clock.sleep(0.05)  # a library that fails at once must not spin
                continue
            uuid, xid = event
            _log.warning("XID reported", gpu=uuid, xid=xid)
            if self.gpus.on_xid(uuid, xid):
                self._wake()
            self._write()

    def _wake(self) -> None:
        for plugin in self._plugins.values():
            plugin.wake()

    def _write(self) -> None:
        path = self._settings.report
        if path is None:
            return
        try:
            write_report(path, report(self.gpus, self._driver, self._without_nvml, dict(self._settings.names)))
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


def _nvml(root: Path, version: str) -> tuple[Nvml | None, str]:
    """Load the library from the driver's folder, or wherever the loader finds it; or return why not."""
    folder = library_folder(root, version)
    places = [*([folder / NVML] if folder is not None else []), *([NVML] if root == Path("/") else [])]
    why = "the driver's libraries are not on this machine"
    for place in places:
        try:
            return Nvml(place), ""
        except NvmlMissing as error:
            why = str(error)
    return None, why


def check_driver(root: Path) -> str:
    """Return why there is nothing to offer; empty if there is."""
    if not driver_version(root):
        return f"{root / 'proc/driver/nvidia/version'}: NVIDIA's driver is not loaded on this machine; install it"
    if not read_gpus(root):
        return f"{root / 'proc/driver/nvidia/gpus'}: the driver serves no GPU; see `dmesg | grep NVRM`"
    return ""
