"""Events of pods on simulated nodes, with the agent's messages."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.client.eventrecorder import EventType, InvolvedObject, Recorder
from tarmac.sim.nodes.failingprobes import OUTPUT, FailingProbe
from tarmac.sim.nodes.pod import SimulatedPod


class PodEvents:
    """Records events. Without a recorder, events are dropped."""

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder

    def started(self, pod: SimulatedPod) -> None:
        """Record that every container has started; init containers only at the first start."""
        initial = [("initContainers", each) for each in pod.initial] if not pod.restarts else []
        for field, (name, image) in (*initial, *(("containers", each) for each in pod.containers)):
            present = "already present on machine and can be accessed by the pod"
            self._container(pod, name, "Normal", "Pulled", f'Container image "{image}" {present}', field)
            self._container(pod, name, "Normal", "Created", "Container created", field)
            self._container(pod, name, "Normal", "Started", "Container started", field)

    def unpullable(self, pod: SimulatedPod) -> None:
        """Record a failed image pull."""
        for name, image in (*pod.initial, *pod.containers):
            if name in pod.missing:
                self._container(pod, name, "Normal", "Pulling", f'Pulling image "{image}"')
                failed = f'Failed to pull image "{image}": {pod.missing[name]}'
                self._container(pod, name, "Warning", "Failed", failed)
                self._container(pod, name, "Warning", "Failed", "Error: ErrImagePull")

    def pull_backs_off(self, pod: SimulatedPod) -> None:
        """Record that the next image pull is delayed."""
        for name, image in (*pod.initial, *pod.containers):
            if name in pod.missing:
                self._container(pod, name, "Normal", "BackOff", f'Back-off pulling image "{image}"')
                self._container(pod, name, "Warning", "Failed", "Error: ImagePullBackOff")

    def unconfigured(self, pod: SimulatedPod) -> None:
        """Record the missing objects that containers refer to."""
        for name, why in pod.missing.items():
            self._container(pod, name, "Warning", "Failed", f"Error: {why}")

    def backs_off(self, pod: SimulatedPod) -> None:
        """Record that the next start is delayed."""
        for name, _ in pod.containers:
            where = f"{pod.name}_{pod.namespace}({pod.uid})"
            message = f"Back-off restarting failed container {name} in pod {where}"
            self._container(pod, name, "Warning", "BackOff", message)

    def killing(
        self, pod: SimulatedPod, why: str = "Stopping container {}", containers: Sequence[str] | None = None
    ) -> None:
        """Record that containers are being killed: the named ones, or all. `{}` is the container's name."""
        for name in [each for each, _ in pod.containers] if containers is None else containers:
            self._container(pod, name, "Normal", "Killing", why.format(name))

    def unhealthy(self, pod: SimulatedPod, probe: FailingProbe) -> None:
        """Record a failed probe."""
        message = f"{probe.kind.capitalize()} probe failed: {OUTPUT}"
        self._container(pod, probe.container, "Warning", "Unhealthy", message)

    def of_pod(self, pod: SimulatedPod, type: EventType, reason: str, message: str) -> None:
        """Record an event about the whole pod."""
        self._record(pod, "", type, reason, message)

    def _container(
        self, pod: SimulatedPod, name: str, type: EventType, reason: str, message: str, field: str = ""
    ) -> None:
        field = field or ("initContainers" if any(each == name for each, _ in pod.initial) else "containers")
        self._record(pod, f"spec.{field}{{{name}}}", type, reason, message)

    def _record(self, pod: SimulatedPod, path: str, type: EventType, reason: str, message: str) -> None:
        if self._recorder is not None:
            about = InvolvedObject("v1", "Pod", pod.name, pod.namespace, pod.uid, path)
            self._recorder.event(about, type, reason, message, instance=pod.node)
