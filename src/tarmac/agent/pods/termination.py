"""Terminates containers: preStop hook, then stop signal, then kill, all within one grace period.

Each container has its own task, so a slow one delays neither the other containers nor the pod's worker. If the grace
period is shortened meanwhile, the task restarts with the remaining time; the hook does not run twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass

import msgspec

from tarmac.agent.containers.hooks import HookFailed
from tarmac.agent.containers.notes import PORTS, PRE_STOP
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.waits import first_of, within
from tarmac.agent.pods.dependencies import PodDependencies
from tarmac.agent.pods.podactions import Kill
from tarmac.api.schema import JsonObject
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.runtimes.interface import RuntimeContainer, RuntimeFault

MIN_GRACE = 2.0
"""Lower bound of every grace period: time for a process to handle the signal."""
RETRY_INTERVAL = 2.0
"""Delay before a failed termination is retried."""

_log = log("pods")
_decode = msgspec.json.Decoder().decode


@dataclass(slots=True)
class _Termination:
    task: asyncio.Future[None]
    deadline: float


class Terminator:
    """Terminates containers of one pod. `wake` is called when one has ended or could not be ended."""

    def __init__(self, deps: PodDependencies, wake: Callable[[], None]) -> None:
        self._deps = deps
        self._wake = wake
        self._terminations: dict[str, _Termination] = {}
        self._hooked: set[str] = set()
        self._tasks = Tasks()

    @property
    def busy(self) -> Set[str]:
        """Ids of containers whose termination is in progress."""
        return self._terminations.keys()

    def kill(self, pod: AgentPod, action: Kill, grace: float, address: str) -> None:
        """Start the termination of a container."""
        container = action.container
        spec = pod.container(container.name) or _remembered(container)
        if container.id not in self._hooked:
            message = action.message or f"Stopping container {container.name}"
            self._deps.recorder.event(pod.container_reference(container.name), "Normal", "Killing", message)
        # Only terminations that have begun: the worker begins those without predecessors first.
        after = [self._terminations[each].task for each in action.after if each in self._terminations]
        work = self._end(pod, spec, container, grace, address, after)
        task = self._tasks.track(work, f"ending {pod.key} {container.name}")
        self._terminations[container.id] = _Termination(task, self._deps.clock.monotonic() + grace)
        task.add_done_callback(lambda done: self._on_done(container.id, done))

    def shorten(self, grace: float) -> None:
        """Cancel terminations that would take longer than this; the worker restarts them with the shorter period."""
        deadline = self._deps.clock.monotonic() + grace
        for container, termination in list(self._terminations.items()):
            if termination.deadline > deadline:
                # Now, not in `_on_done`: the container must not count as busy in the pass that starts the successor.
                del self._terminations[container]
                termination.task.cancel()

    def stop(self) -> None:
        """Cancel all tasks. A stop already sent to the runtime completes there."""
        for termination in self._terminations.values():
            termination.task.cancel()
        self._terminations.clear()

    def _on_done(self, id: str, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.error("container termination failed", container=id, error=repr(error))
        termination = self._terminations.get(id)
        # A shortened termination has a successor under the same id, which must stay.
        if termination is not None and termination.task is done:
            del self._terminations[id]
        self._wake()

    async def _end(
        self,
        pod: AgentPod,
        spec: JsonObject,
        container: RuntimeContainer,
        grace: float,
        address: str,
        after: list[asyncio.Future[None]],
    ) -> None:
        clock = self._deps.clock
        deadline = clock.monotonic() + grace
        hook = (spec.get("lifecycle") or {}).get("preStop")
        # As kubelet: no hook runs without a grace period.
        if hook and grace > 0 and container.id not in self._hooked:
            await self._run_hook(pod, spec, container, hook, address, grace)
        # Marked only after the hook: a hook that `shorten` cancelled runs again within the shorter period.
        self._hooked.add(container.id)
        if after and deadline > clock.monotonic():
            await first_of(clock, deadline - clock.monotonic(), after)
        try:
            await self._deps.runtime.stop_container(container.id, max(MIN_GRACE, deadline - clock.monotonic()))
        except RuntimeFault as error:
            operation = f'failed to "KillContainer" for "{container.name}" with KillContainerError'
            why = f'error killing pod: {operation}: "{error}"'
            self._deps.recorder.event(pod.reference, "Warning", "FailedKillPod", why)
            # The container stays busy during the delay; otherwise the worker would repeat the call at once.
            await clock.sleep(RETRY_INTERVAL)

    async def _run_hook(
        self, pod: AgentPod, spec: JsonObject, container: RuntimeContainer, hook: JsonObject, address: str, grace: float
    ) -> None:
        try:
            await within(self._deps.clock, grace, self._deps.hooks.run(pod, spec, container.id, hook, address))
        except HookFailed as error:
            _log.info("hook failed", pod=pod.key, container=container.name, error=str(error))
            # The hook's output may contain secrets, so the event leaves it out.
            about = pod.container_reference(container.name)
            self._deps.recorder.event(about, "Warning", "FailedPreStopHook", "PreStopHook failed")


def _remembered(container: RuntimeContainer) -> JsonObject:
    """Rebuild the hook and the ports of a missing spec from the container's annotations."""
    spec: JsonObject = {"name": container.name}
    if hook := container.annotations.get(PRE_STOP):
        spec["lifecycle"] = {"preStop": _decode(hook)}
    if ports := container.annotations.get(PORTS):
        spec["ports"] = _decode(ports)
    return spec
