"""Devices as part of a node: the service where plugins register, and the admission of pods with devices."""

from __future__ import annotations

from collections.abc import Callable

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.devices.devicemanager import DeviceManager
from tarmac.agent.devices.registration import Registration
from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.allotment import Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.podhub import PodHub
from tarmac.api.schema import JsonObject
from tarmac.decide.reasons import DEVICE_UNSUPPORTED


class NodeDeviceService:
    """Connects the device manager with the rest of a node. `takers`: handlers that pass devices to containers."""

    def __init__(
        self, config: AgentConfig, devices: DeviceManager, pods: PodHub, takers: Callable[[], frozenset[str]]
    ) -> None:
        self._devices = devices
        self._pods = pods
        self._takers = takers
        self.run = Registration(config.flags.device_plugin_dir, devices.register).run

    def refusal(self, pod: JsonObject) -> Refusal | None:
        """Reject a pod that requests devices with a handler that does not pass them."""
        asked = self._devices.asked_by(AgentPod(pod))
        takers = self._takers()
        if not asked or not takers:
            return None
        try:
            handler = self._pods.handler(pod)
        except ConfigMissing:
            return None  # the class may still come: until then there is no sandbox
        if handler in takers:
            return None
        classes = ", ".join(sorted(filter(None, takers)))
        message = f'runtime handler "{handler}" does not pass devices on, and the pod asks for {", ".join(asked)}'
        return DEVICE_UNSUPPORTED, f"{message}; handlers that do: {classes or 'the default one'}"
