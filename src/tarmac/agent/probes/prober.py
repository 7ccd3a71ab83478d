"""The probes of one pod: a task for each probe of each running container, and their results.

A startup probe runs until it has passed or failed; the other probes wait for it. Results belong to one runtime
container and are dropped with it. A container already running when the agent starts keeps its state in the API until
its probes have results, so an agent restart makes no pod unready. Probes of a paused container (a virtual machine) are
suspended: they would all fail, and the container would be killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tarmac.agent.model.pod import AgentPod, is_sidecar
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.agent.probes.checks import Checks
from tarmac.agent.probes.outcome import ProbeFault
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import Tasks
from tarmac.client.eventrecorder import Recorder
from tarmac.runtimes.interface import RuntimeContainer

Kind = Literal["startup", "liveness", "readiness"]
_KINDS: tuple[Kind, ...] = ("startup", "liveness", "readiness")
_TITLES = {"startup": "Startup", "liveness": "Liveness", "readiness": "Readiness"}


@dataclass(slots=True)
class _Followed:
    """A running container with probes."""

    started: asyncio.Event
    tasks: dict[Kind, asyncio.Task[None]] = field(default_factory=dict[Kind, asyncio.Task[None]])


class Prober:
    """Probes a pod's containers. `changed` is called when a result has changed."""

    def __init__(
        self,
        checks: Checks,
        recorder: Recorder,
        clock: Clock,
        randomness: Randomness,
        changed: Callable[[], None],
    ) -> None:
        self.started: dict[str, bool] = {}
        self.ready: dict[str, bool] = {}
        self.unhealthy: set[str] = set()
        self._checks = checks
        self._recorder = recorder
        self._clock = clock
        self._randomness = randomness
        self._changed = changed
        self._followed: dict[str, _Followed] = {}
        self._tasks = Tasks()
        self._pod: AgentPod | None = None
        self._still: frozenset[str] = frozenset()
        self._address = ""

    def follow(self, pod: AgentPod, seen: PodRuntimeState, address: str, *, ending: bool) -> None:
        """Probe the running containers. While ending, only readiness probes continue."""
        self._pod, self._address = pod, address
        lasting = {each["name"]: each for each in pod.init_containers if is_sidecar(each)}
        lasting |= {each["name"]: each for each in pod.containers}
        running = {each.id: each for each in seen.containers if each.state == "running" and each.name in lasting}
        self._still = frozenset(each.id for each in running.values() if each.stands_still)
        for gone in self._followed.keys() - running.keys():
            self._drop(gone)
        for container in running.values():
            spec, followed = lasting[container.name], self._followed.get(container.id)
            if ending and followed is not None:
                # A failing probe must not kill a container that is ending within its grace period.
                for kind in ("startup", "liveness"):
                    if task := followed.tasks.pop(kind, None):
                        task.cancel()
            elif followed is None and not ending and any(f"{kind}Probe" in spec for kind in _KINDS):
                self._begin(spec, container)

    def adopt(self, pod: AgentPod, status: JsonObject) -> None:
        """Take over probe results from a status, for containers that ran before the agent started."""
        for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
            spec = pod.container(each["name"]) or {}
            identity = (each.get("containerID") or "").partition("://")[2]
            if identity and "running" in (each.get("state") or {}):
                if "startupProbe" in spec and each.get("started"):
                    self.started[identity] = True
                if "readinessProbe" in spec:
                    self.ready[identity] = bool(each.get("ready"))

    def stop(self) -> None:
        """Cancel all probes."""
        for each in list(self._followed):
            self._drop(each)

    def _drop(self, id: str) -> None:
        for task in self._followed.pop(id).tasks.values():
            task.cancel()
        self.started.pop(id, None)
        self.ready.pop(id, None)
        self.unhealthy.discard(id)

    def _begin(self, spec: JsonObject, container: RuntimeContainer) -> None:
        followed = self._followed[container.id] = _Followed(asyncio.Event())
        adopted = container.id in self.ready or container.id in self.started
        if "startupProbe" not in spec or self.started.get(container.id):
            followed.started.set()
        if "readinessProbe" in spec:
            # An adopted container keeps the result that the API has: a restart of the agent must not make it unready.
            self.ready.setdefault(container.id, False)
        for kind in _KINDS:
            if f"{kind}Probe" in spec and not (kind == "startup" and followed.started.is_set()):
                run = self._run(kind, spec, container, followed, adopted)
                followed.tasks[kind] = self._tasks.begin(run, f"{kind} probe of {container.name}")

    async def _run(
        self, kind: Kind, spec: JsonObject, container: RuntimeContainer, followed: _Followed, adopted: bool
    ) -> None:
        probe = spec[f"{kind}Probe"]
        period = float(probe.get("periodSeconds") or 10)
        if kind != "startup":
            await followed.started.wait()
        initial = float(probe.get("initialDelaySeconds") or 0)
        # At most the initial delay, in case the clock was set back since the container started.
        delay = min(initial, container.started_at + initial - self._clock.now())
        if adopted:
            # Spread over one period: the probes of all pods would run at once after a restart of the agent.
            delay = max(delay, self._randomness.uniform(0, period))
        if delay > 0:
            await self._clock.sleep(delay)
        run, last = 0, None
        while True:
            result = None if container.id in self._still else await self._try(kind, spec, container, probe)
            if container.id in self._still:  # it may have been paused during the probe
                run, last = 0, None
            elif result is not None:
                run, last = (run + 1 if result == last else 1), result
                needed = probe.get("successThreshold") or 1 if result else probe.get("failureThreshold") or 3
                if run >= needed and self._conclude(kind, container.id, result, followed):
                    return
            await self._clock.sleep(period)

    async def _try(self, kind: Kind, spec: JsonObject, container: RuntimeContainer, probe: JsonObject) -> bool | None:
        """Return True if it passed; None if the probe could not be executed."""
        pod = self._pod
        assert pod is not None, "only containers of a pod are followed"
        about = pod.container_reference(container.name)
        title = _TITLES[kind]
        try:
            outcome = await self._checks.check(pod, spec, container.id, probe, self._address)
        except ProbeFault as error:
            message = f"{title} probe errored and resulted in unknown state: {error}"
            self._recorder.event(about, "Warning", "Unhealthy", message)
            return None
        if outcome.result == "warning":
            self._recorder.event(about, "Warning", "ProbeWarning", f"{title} probe warning: {outcome.output}")
        elif outcome.result == "failure":
            self._recorder.event(about, "Warning", "Unhealthy", f"{title} probe failed: {outcome.output}")
        return outcome.result != "failure"

    def _conclude(self, kind: Kind, id: str, result: bool, followed: _Followed) -> bool:
        """Store a result; return True if this probe is complete."""
        if kind == "readiness":
            changed, self.ready[id] = self.ready.get(id) is not result, result
        elif kind == "startup":
            changed, self.started[id] = True, result
            if result:
                followed.started.set()
        else:
            changed = not result
            if not result:
                self.unhealthy.add(id)
        if changed:
            self._changed()
        return kind == "startup" or (kind == "liveness" and not result)
