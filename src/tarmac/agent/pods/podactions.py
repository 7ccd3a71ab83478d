"""Computes the next steps of a pod: a pure function of its definition and the observed state.

`decide` considers the whole state and returns the steps that can be taken now. The caller executes them, inspects again
and decides again, until a plan has no steps. So a crash of the agent between any two steps loses nothing: the next
inspection shows the completed steps. The rules are kubelet's:

- no container starts without the one usable sandbox; a sandbox that died takes its containers with it, and init
  containers run again in the next one;
- init containers run one after the other, a sidecar counts as done once it has started; plain containers follow;
- exited containers restart by their restart policy, with growing delays;
- when no container runs or will run, the sandbox is stopped too and the pod is `finished`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Literal

from tarmac.agent.containers.identity import container_hash
from tarmac.agent.containers.notes import HASH
from tarmac.agent.model.backoff import BackOffs
from tarmac.agent.model.pod import AgentPod, is_sidecar, restarts_after, restarts_on_failure
from tarmac.agent.model.podclasses import Classes
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.api.schema import JsonObject
from tarmac.base.duration import format_duration
from tarmac.runtimes.interface import RuntimeContainer, RuntimeSandbox

KillReason = Literal["", "LivenessProbe", "StartupProbe"]
MAX_SANDBOX_DELAY = 30.0
_CLOCK_SKEW = 1.0  # seconds that the runtime's timestamps may be ahead of the agent's clock


@dataclass(frozen=True, slots=True)
class MakeSandbox:
    """Create the pod's sandbox; `replaces` an unusable one."""

    attempt: int
    replaces: bool


@dataclass(frozen=True, slots=True)
class StopSandbox:
    """Stop a sandbox and release its network."""

    id: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start a container, or one that is already `created` and was never started.

    `instead`: the id of a container that has this attempt number and cannot be started; it is removed first.
    """

    container: JsonObject
    attempt: int
    created: str = ""
    instead: str = ""
    failed_at: float | None = None  # end of the previous attempt, if it counts for the back-off


@dataclass(frozen=True, slots=True)
class Kill:
    """End a container, once the containers `after` have ended."""

    container: RuntimeContainer
    message: str = ""
    reason: KillReason = ""
    restart: bool = False
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resize:
    """Apply the resources of the spec to a running container; without `amounts`, only its classes differ."""

    container: JsonObject
    id: str
    amounts: bool = True


Action = MakeSandbox | StopSandbox | Start | Kill | Resize


@dataclass(frozen=True, slots=True)
class Situation:
    """All inputs of a decision."""

    pod: AgentPod
    seen: PodRuntimeState
    now: float
    ending: bool = False
    started: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Outcome of the startup probe by container id; absent while it is not known."""
    unhealthy: Set[str] = frozenset()
    """Ids of containers that failed their liveness probe."""
    killing: Set[str] = frozenset()
    """Ids of containers whose termination is in progress."""
    replaced: Set[str] = frozenset()
    """Ids of containers ended in order to be replaced: not a crash, so no back-off, unless they are `unwell`."""
    unwell: Set[str] = frozenset()
    """Ids of containers ended after a failed probe: these count as crashes."""
    stopped: Set[str] = frozenset()
    """Ids of sandboxes that were stopped with all their containers."""
    back_offs: BackOffs = field(default_factory=BackOffs)
    applied: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """Resources that running containers have, by name."""
    classes: Mapping[str, Classes] = field(default_factory=dict[str, Classes])
    """Classes that containers should be in, by name, from any source."""
    classed: Mapping[str, Classes] = field(default_factory=dict[str, Classes])
    """Classes that running containers were put into, by name."""


@dataclass(slots=True)
class PodActions:
    """Steps to take now, waiting reasons, the time of the next decision, and if the pod is finished."""

    actions: list[Action] = field(default_factory=list[Action])
    waiting: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    wake_at: float | None = None
    finished: bool = False

    def wake(self, at: float) -> None:
        """Decide again at this time at the latest."""
        self.wake_at = at if self.wake_at is None else min(self.wake_at, at)


def decide(situation: Situation) -> PodActions:
    """Return the next steps."""
    if situation.ending:
        return _wind_down(situation)
    sandbox = situation.seen.usable_sandbox(situation.pod.host_network)
    return _without_sandbox(situation) if sandbox is None else _Within(situation, sandbox).plan()


def _wind_down(situation: Situation) -> PodActions:
    """End all containers, sidecars last and in reverse order, then the sandboxes."""
    running = situation.seen.running
    if running:
        return PodActions(_kills(situation, running))
    left = [each for each in situation.seen.sandboxes if each.ready or each.id not in situation.stopped]
    return PodActions([StopSandbox(each.id) for each in left], finished=not left)


def _kills(situation: Situation, running: tuple[RuntimeContainer, ...]) -> list[Action]:
    order = [each["name"] for each in situation.pod.init_containers if is_sidecar(each)]
    kills: list[Action] = []
    for container in running:
        if container.id in situation.killing:
            continue
        later = order[order.index(container.name) + 1 :] if container.name in order else None
        first = () if later is None else (each for each in running if each.name not in order or each.name in later)
        kills.append(Kill(container, after=tuple(each.id for each in first)))
    return kills


def _without_sandbox(situation: Situation) -> PodActions:
    pod, seen = situation.pod, situation.seen
    clearing = _wind_down(situation)
    if not clearing.finished or _complete(pod, seen):
        return clearing
    plan = PodActions()
    soonest = _sandbox_not_before(seen, situation.now)
    if soonest > situation.now:
        plan.wake(soonest)
    else:
        plan.actions.append(MakeSandbox(seen.next_attempt, replaces=bool(seen.sandboxes)))
    return plan


def _complete(pod: AgentPod, seen: PodRuntimeState) -> bool:
    """Return True if a pod that lost its sandbox had completed its work."""
    if not seen.sandboxes:
        return False
    if pod.restart_policy == "Never" and seen.containers:
        return True
    ended = [seen.latest(each["name"]) for each in pod.containers]
    if not any(ended):
        return False
    return all(
        last is not None and last.state == "exited" and not restarts_after(pod, spec, last.exit_code)
        for spec, last in zip(pod.containers, ended, strict=True)
    )


def _sandbox_not_before(seen: PodRuntimeState, now: float) -> float:
    """Return the earliest time for a new sandbox. The delay grows, so a sandbox that dies at once is no tight loop."""
    newest = seen.sandboxes[0] if seen.sandboxes else None
    if newest is None or newest.created_at - _CLOCK_SKEW > now:  # made before the clock was set back
        return 0.0
    # The exponent is limited too: a float overflows at 1024 attempts.
    return newest.created_at + min(2.0 ** min(newest.pod.attempt, 10), MAX_SANDBOX_DELAY)


class _Within:
    """Decides about containers, given a usable sandbox."""

    def __init__(self, situation: Situation, sandbox: RuntimeSandbox) -> None:
        self._situation = situation
        self._pod = situation.pod
        self._seen = situation.seen
        self._sandbox = sandbox
        self._plan = PodActions()

    def plan(self) -> PodActions:
        # First, as kubelet does: an ephemeral container must start although an init container fails over and over.
        for container in self._pod.ephemeral_containers:
            last = self._seen.latest(container["name"])
            if last is None or last.state == "created":
                self._start(container, last)
        initialized = self._initialize()
        if initialized is None:
            return _wind_down(self._situation)
        if initialized:
            alive = [self._keep(container) for container in self._pod.containers]
            if not any(alive):
                return _wind_down(self._situation)
        return self._plan

    # --- init containers --------------------------------------------------------------------------------------------

    def _initialize(self) -> bool | None:
        """Advance initialisation. True: done; None: failed for good."""
        init = self._pod.init_containers
        here = self._sandbox.id
        # A plain container in this sandbox proves that initialisation completed: its init containers may be
        # garbage-collected.
        if any(self._seen.latest(each["name"], here) for each in self._pod.containers):
            self._keep_sidecars(init)
            return True
        # The last init container that ran gives the progress: earlier ones may have been garbage-collected.
        reached = [index for index, each in enumerate(init) if self._seen.latest(each["name"], here)]
        if not reached:
            return self._start_init(init, 0)
        at = reached[-1]
        self._keep_sidecars(init[:at])
        last = self._seen.latest(init[at]["name"], here)
        assert last is not None, "it was reached"
        done = self._sidecar(init[at], last) if is_sidecar(init[at]) else self._step(init[at], last)
        return self._start_init(init, at + 1) if done else done

    def _start_init(self, init: list[JsonObject], index: int) -> bool:
        if index >= len(init):
            return True
        self._start(init[index], self._seen.latest(init[index]["name"], self._sandbox.id))
        return False

    def _step(self, container: JsonObject, last: RuntimeContainer) -> bool | None:
        """Advance one init container that must exit with 0."""
        if last.state == "running":
            return False
        if last.state == "unknown":
            return self._kill_unknown(container, last)
        if last.state == "exited" and last.exit_code == 0:
            return True
        if last.state == "exited" and not restarts_after(self._pod, container, last.exit_code):
            return None
        self._start(container, last)
        return False

    def _kill_unknown(self, container: JsonObject, last: RuntimeContainer) -> bool | None:
        if not restarts_on_failure(self._pod, container):
            return None
        self._kill(last, 'Init container is in "unknown" state, try killing it before restart', restart=True)
        return False

    def _keep_sidecars(self, init: list[JsonObject]) -> None:
        for container in init:
            if is_sidecar(container):
                self._sidecar(container, self._seen.latest(container["name"], self._sandbox.id))

    def _sidecar(self, container: JsonObject, last: RuntimeContainer | None) -> bool:
        """Keep a sidecar running; return True if it has started."""
        name = container["name"]
        if last is None or last.state in ("created", "exited"):
            self._start(container, last)
            return False
        if last.state == "unknown":
            self._kill(last, 'Init container is in "unknown" state, try killing it before restart', restart=True)
            return False
        started = self._situation.started.get(last.id, "startupProbe" not in container)
        if self._situation.started.get(last.id) is False and "startupProbe" in container:
            self._kill(last, f"Init container {name} failed startup probe", "StartupProbe", restart=True)
        elif _changed(container, last):
            self._kill(last, f"Init container {name} definition changed", restart=True)
        elif last.id in self._situation.unhealthy:
            self._kill(last, f"Init container {name} failed liveness probe", "LivenessProbe", restart=True)
        else:
            self._resize(container, last)
        return started

    # --- containers -------------------------------------------------------------------------------------------------

    def _keep(self, container: JsonObject) -> bool:
        """Keep one plain container running; return True if it runs or will run."""
        last = self._seen.latest(container["name"])
        if last is None or last.state == "created":
            self._start(container, last)
            return True
        if last.state == "exited":
            if not restarts_after(self._pod, container, last.exit_code):
                return False
            self._start(container, last)
            return True
        if last.state == "unknown":
            self._kill(last, 'Container is in "unknown" state, try killing it before restart', restart=True)
            return True
        return self._check(container, last)

    def _check(self, container: JsonObject, last: RuntimeContainer) -> bool:
        """Kill a running container if its definition changed or a probe failed; return True if one runs or will run."""
        name = container["name"]
        restart = restarts_on_failure(self._pod, container)
        reason: KillReason = ""
        if last.id in self._situation.killing:
            return last.id in self._situation.replaced
        if _changed(container, last):
            message, restart = f"Container {name} definition changed", True
        elif last.id in self._situation.unhealthy:
            message, reason = f"Container {name} failed liveness probe", "LivenessProbe"
        elif self._situation.started.get(last.id) is False and "startupProbe" in container:
            message, reason = f"Container {name} failed startup probe", "StartupProbe"
        else:
            self._resize(container, last)
            return True
        self._kill(last, f"{message}, will be restarted" if restart else message, reason, restart=restart)
        return restart

    def _start(self, container: JsonObject, last: RuntimeContainer | None) -> None:
        name = container["name"]
        if last is not None and last.id in self._seen.broken:
            self._plan.actions.append(Start(container, last.attempt, instead=last.id))
            return
        # Only in this sandbox: a container created in an earlier one has lost its namespaces and cannot start.
        if last is not None and last.state == "created" and last.sandbox_id == self._sandbox.id:
            self._plan.actions.append(Start(container, last.attempt, created=last.id))
            return
        failed_at = self._crashed_at(name)
        if failed_at is not None:
            delay = self._situation.back_offs.delay(name, failed_at)
            # An end in the future means that the clock was set back since, and the elapsed time is unknown. Waiting for
            # the clock to catch up could take years; one early start gives the container a timestamp of the new clock.
            if failed_at - _CLOCK_SKEW < self._situation.now < failed_at + delay:
                message = f"back-off {format_duration(delay)} restarting failed container={name} pod={self._pod}"
                self._plan.waiting[name] = ("CrashLoopBackOff", message)
                self._plan.wake(failed_at + delay)
                return
        self._plan.actions.append(Start(container, self._seen.attempts(name), failed_at=failed_at))

    def _crashed_at(self, name: str) -> float | None:
        """Return the end of the newest container that exited by itself or failed a probe."""
        on_purpose = self._situation.replaced - self._situation.unwell
        for container in self._seen.containers:
            if container.name == name and container.state == "exited" and container.id not in on_purpose:
                return container.finished_at
        return None

    def _kill(self, container: RuntimeContainer, message: str, reason: KillReason = "", *, restart: bool) -> None:
        if container.id not in self._situation.killing:
            self._plan.actions.append(Kill(container, message, reason, restart=restart))

    def _reclassed(self, name: str) -> bool:
        """Return True if the container's classes differ from the wanted ones; never a reason for a restart."""
        classed = self._situation.classed.get(name)
        return classed is not None and classed != self._situation.classes.get(name, {})

    def _resize(self, container: JsonObject, last: RuntimeContainer) -> None:
        applied = self._situation.applied.get(container["name"])
        wanted = container.get("resources") or {}
        if applied is None or last.id in self._situation.killing:
            return
        if applied == wanted and not self._reclassed(container["name"]):
            return
        changed = {
            name
            for side in ("requests", "limits")
            for name in ("cpu", "memory")
            if (applied.get(side) or {}).get(name) != (wanted.get(side) or {}).get(name)
        }
        reclassed = self._reclassed(container["name"]) or applied.get("classes") != wanted.get("classes")
        if not changed and not reclassed:
            return
        policies = {each["resourceName"]: each["restartPolicy"] for each in container.get("resizePolicy") or ()}
        if any(policies.get(name) == "RestartContainer" for name in changed):
            message = f"Container {container['name']} resize requires restart, will be restarted"
            self._kill(last, message, restart=True)
        else:
            self._plan.actions.append(Resize(container, last.id, amounts=bool(changed)))


def _changed(container: JsonObject, last: RuntimeContainer) -> bool:
    noted = last.annotations.get(HASH)
    return noted is not None and noted != container_hash(container)
