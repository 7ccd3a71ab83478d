"""Devices as part of a node: the service where plugins register, and the admission of pods with devices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tarmac.agent.config.settings import AgentConfig
from tarmac.agent.devices.manager import DeviceManager, Tell
from tarmac.agent.devices.registration import Registration
from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.allotment import Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.pods.manager import PodManager
from tarmac.api.schema import JsonObject
from tarmac.decide.reasons import DEVICE_UNSUPPORTED


class NodeDeviceService:
    """Connects the device manager with the rest of a node. `takers`: handlers that pass devices to containers."""

    def __init__(
        self, config: AgentConfig, devices: DeviceManager, pods: PodManager, takers: Callable[[], frozenset[str]]
    ) -> None:
        self._folder = config.flags.device_plugin_dir
        self._devices = devices
        self._pods = pods
        self._takers = takers
        pods.add_admission(self.refusal)

    def serve(self, changed: Callable[[], None], tell: Tell) -> Callable[[], Awaitable[None]]:
        """Return the task to run. `changed` is called when the node has more or fewer devices."""
        self._devices.changed = changed
        self._devices.pod_changed = self._pods.wake
        self._devices.tell = tell
        return Registration(self._folder, self._devices.register).run

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
