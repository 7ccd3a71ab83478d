"""Reconciles one pod: inspect the runtime, decide the next steps, execute them, report status.

The worker is woken by spec changes, runtime events, probe results, image pulls, terminated containers and a timer. Each
wake-up runs the same full pass. Runtime events are debounced, and ignored if they describe a known state, such as the
start of a container that this worker started. Ending the pod cancels the current pass; the next one inspects the steps
it had completed.

Cancelling the worker leaves all containers running for the next agent to adopt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tarmac.agent.allocation.promises import Fits, PodPromises, Resizes, reported_resources
from tarmac.agent.model.backoff import BackOffs
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.podclasses import NO_CLASSES
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.agent.model.waits import Alarm
from tarmac.agent.pods.dependencies import PodDependencies
from tarmac.agent.pods.executor import StepExecutor, StepFailed
from tarmac.agent.pods.inspection import PodInspector, StepResult
from tarmac.agent.pods.podactions import Kill, MakeSandbox, PodActions, Resize, Situation, Start, StopSandbox, decide
from tarmac.agent.pods.termination import Terminator
from tarmac.agent.probes.prober import Prober
from tarmac.agent.status.podconditions import OURS
from tarmac.agent.status.podstatus import in_order, pod_status, rejected_status
from tarmac.agent.status.statusinputs import TOO_LONG, PodTermination, StatusFacts
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.client.backoff import Backoff
from tarmac.runtimes.interface import RuntimeEvent, RuntimeFault

FIRST_RETRY = 1.0
MAX_RETRY = 20.0

EVENT_DEBOUNCE = 0.05
"""Debounce of runtime events, in seconds: one inspection serves all events of a burst."""

INITIAL_STATUS_DELAY = 0.5
"""Delay before the first status is written. Most pods are Running by then, which saves one write per pod."""

_log = log("pods")


@dataclass(frozen=True, slots=True)
class PodEnding:
    """Request to end the pod. `grace`: None for the pod's own. `verdict`: set if the node ends it."""

    grace: float | None = None
    verdict: PodTermination | None = None


class PodWorker:
    """Reconciles one pod. `report(status, over)` is called with every computed status.

    `promised` are resources that an earlier agent allocated, `refused` the status of a rejected pod; `fresh`: the
    runtime is known to have nothing of it.
    """

    def __init__(
        self,
        deps: PodDependencies,
        pod: AgentPod,
        report: Callable[[JsonObject, bool], None],
        fits: Fits,
        *,
        promised: Resizes | None = None,
        refused: JsonObject | None = None,
        fresh: bool = False,
    ) -> None:
        self.pod = pod
        self.seen = PodRuntimeState()
        self.status: JsonObject = refused or pod.status
        self.over = refused is not None
        """True once no container runs or will run, and the pod's resources are released."""
        self.released = False
        """True if this worker released them. A rejected pod may have resources from an earlier agent."""
        self.allocation = PodPromises(pod, promised)
        self._reported = reported_resources(pod.status)  # by an earlier agent
        self._deps = deps
        self._report = report
        self._fits = fits
        self._ending: PodEnding | None = PodEnding() if pod.deleted else None
        self._woken = asyncio.Event()
        self._pending_events: list[RuntimeEvent | None] = []
        self._tasks = Tasks()
        self._pass: asyncio.Future[None] | None = None
        self._pass_cancelled = False
        self._back_offs = BackOffs(max_delay=deps.settings.crash_loop_longest)
        self._executor = StepExecutor(deps, self._back_offs, self.wake)
        self._terminator = Terminator(deps, self.wake)
        self._prober = Prober(deps.checks, deps.recorder, deps.clock, deps.randomness, self.wake)
        self._prober.adopt(pod, pod.status)
        self._inspector = PodInspector(deps.runtime, deps.paths, pod.uid)
        self._alarm = Alarm(deps.clock)
        self._began: tuple[str, float] | None = None  # the pod's startTime, and the monotonic clock at that time
        self._event_timer = Alarm(deps.clock)
        self._initial_status_timer = Alarm(deps.clock)
        self._retry = Backoff(deps.randomness, FIRST_RETRY, MAX_RETRY)
        self._replaced: set[str] = set()
        self._unwell: set[str] = set()
        self._stopped: set[str] = set()
        self._backed_off: set[tuple[str, str]] = set()
        self._fresh = fresh
        self._classes = NO_CLASSES
        self.wake()

    # --- called by the manager and by the parts ---------------------------------------------------------------------

    def wake(self) -> None:
        """Run a pass now."""
        self._woken.set()

    def on_runtime_event(self, event: RuntimeEvent | None) -> None:
        """Run a pass soon: the runtime sends an event for every step, and one pass serves a burst of them."""
        self._pending_events.append(event)
        self._event_timer.set(EVENT_DEBOUNCE, self._flush_events)

    def retry(self) -> None:
        """Retry failed steps at once and refresh volumes: an object the pod refers to has changed."""
        self._executor.invalidate()
        self.wake()

    def update(self, pod: AgentPod) -> None:
        """Accept a new version of the pod."""
        before, self.pod = self.pod, pod
        if pod.deleted and (self._ending is None or pod.grace < before.grace or not before.deleted):
            self.end(PodEnding(verdict=self._ending.verdict if self._ending else None))
        elif not _same(pod, before):
            self.wake()

    def end(self, ending: PodEnding) -> None:
        """End the pod; if it is ending already, apply the new grace period."""
        begins = self._ending is None
        self._ending = ending
        if begins and self._pass is not None:
            # Set before the cancellation: `run` must be able to tell it from a cancellation of the worker.
            self._pass_cancelled = True
            self._pass.cancel()
        self._terminator.shorten(self._grace)
        self.wake()

    @property
    def ending(self) -> bool:
        """True if the pod is ending or has ended."""
        return self._ending is not None or self.pod.finished or self.status.get("phase") in TERMINAL

    def shown(self, pod: AgentPod | None = None) -> JsonObject:
        """Return the pod, or another version of it, with its current status."""
        return {"apiVersion": "v1", "kind": "Pod", **(pod or self.pod).raw, "status": self.status}

    def _flush_events(self) -> None:
        """Wake the worker if pending events show news.

        During a pass they wait for its end: only then is the state known.
        """
        if self._pass is not None:
            return
        events, self._pending_events = self._pending_events, []
        if not all(event is not None and self.seen.shows(event) for event in events):
            self.wake()

    # --- the loop ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run passes until cancelled. A pod that is over still handles updates: its object may exist longer."""
        try:
            while True:
                await self._woken.wait()
                # Before the pass: a wake-up during it starts another one.
                self._woken.clear()
                self._alarm.clear()
                self._pass = self._tasks.track(self._reconcile(), f"pass of {self.pod.key}")
                try:
                    await self._pass
                except asyncio.CancelledError:
                    # `end` cancelled the pass, or the worker itself is cancelled, or both in one iteration of the loop,
                    # which raises a single exception. Swallowing it in the last case would make the agent wait for this
                    # worker for ever.
                    this = asyncio.current_task()
                    if not self._pass_cancelled or (this is not None and this.cancelling()):
                        raise
                    self._woken.set()
                finally:
                    self._pass, self._pass_cancelled = None, False
                # Events of the pass are compared with the state that it found, so that its own steps do not start
                # another one.
                if self._pending_events:
                    self._event_timer.set(EVENT_DEBOUNCE, self._flush_events)
        finally:
            self._alarm.clear()
            self._event_timer.clear()
            self._initial_status_timer.clear()
            self._prober.stop()
            self._terminator.stop()

    async def _reconcile(self) -> None:
        """Run one pass; schedule a retry if it fails."""
        try:
            await self._once()
            self._retry.reset()
        except StepFailed:
            self._report_status()
            self._alarm.set(self._retry.next(), self.wake)
        except RuntimeFault as error:
            _log.info("runtime call failed, will retry", pod=self.pod.key, error=str(error))
            self._alarm.set(self._retry.next(), self.wake)
        except Exception as error:
            _log.error("pod reconcile failed, will retry", pod=self.pod.key, error=repr(error))
            self._alarm.set(self._retry.next(), self.wake)

    async def _once(self) -> None:
        if self.over:
            self._report_status()
            return
        self.allocation.consider(self.pod, self._fits)
        self.seen = PodRuntimeState() if self._fresh else await self._inspector.inspect()
        # Only while the runtime has nothing of the pod: one that runs was admitted, and its devices are in use.
        if self._fresh and not self.ending and await self._refused():
            return
        while True:
            plan = self._decide()
            if plan.finished:
                await self._finish()
                return
            # Before the steps, which may take minutes: the pod's deadline counts from this startTime.
            if plan.actions and not self.status.get("startTime"):
                self.status = self._compute_status(over=False)
                self._initial_status_timer.set(INITIAL_STATUS_DELAY, self._report_status)
            result = await self._act(plan)
            if not result:
                break
            self.seen = await (self._inspector.inspect() if result.other else self._inspector.inspect_created(result))
        await self._executor.refresh(self.pod, self.seen)
        await self._refresh_classes()
        self._report_status()
        now, passed = self._now, self._deps.clock.monotonic()
        waits = [] if plan.wake_at is None else [plan.wake_at - now]
        waits += [each - passed for each in (self._executor.retry_at, self._deadline()) if each is not None]
        if waits:
            self._alarm.set(max(0.0, min(waits)), self.wake)

    async def _refused(self) -> bool:
        """Ask the allocator, which may await plugins; return True if it rejected the pod.

        A cancelled call is repeated.
        """
        why = await self._deps.allocator.prepare(self.pod)
        if why is None:
            return False
        reason, message = why
        _log.info("pod refused", pod=self.pod.key, reason=reason)
        self._deps.recorder.event(self.pod.reference, "Warning", reason, message)
        self.status = rejected_status(self.pod, reason, message, self._now)
        self.over = True
        self._report_status()
        return True

    def _decide(self) -> PodActions:
        pod = self.allocation.effective(self.pod)
        classes = {name: each.classes for name, each in self._deps.allocator.allot(pod).containers.items()}
        self._executor.adopt(self.seen, self.allocation.promised, classes, self._reported)
        deadline = self._deadline()
        if self._ending is None and deadline is not None and deadline <= self._deps.clock.monotonic():
            self._ending = PodEnding(verdict=TOO_LONG)
            self._deps.recorder.event(self.pod.reference, "Normal", TOO_LONG.reason, TOO_LONG.message)
        self._prober.follow(pod, self.seen, self._address, ending=self.ending)
        plan = decide(
            Situation(
                pod,
                self.seen,
                self._now,
                ending=self.ending,
                started=self._prober.started,
                unhealthy=self._prober.unhealthy,
                killing=self._terminator.busy,
                replaced=self._replaced,
                unwell=self._unwell,
                stopped=self._stopped,
                back_offs=self._back_offs,
                applied=self._executor.applied,
                classes=classes,
                classed=self._executor.classed,
            )
        )
        self._note_back_offs(plan)
        return plan

    def _note_back_offs(self, plan: PodActions) -> None:
        waiting = self._executor.waiting
        for name in [
            each for each, why in waiting.items() if why[0] == "CrashLoopBackOff" and each not in plan.waiting
        ]:
            del waiting[name]
        for name, why in plan.waiting.items():
            waiting[name] = why
            last = self.seen.latest(name)
            if last is not None and (name, last.id) not in self._backed_off:
                self._backed_off.add((name, last.id))
                message = f"Back-off restarting failed container {name} in pod {self.pod}"
                self._deps.recorder.event(self.pod.container_reference(name), "Warning", "BackOff", message)

    async def _act(self, plan: PodActions) -> StepResult:
        """Execute the steps and return the created objects; an empty result needs no new inspection."""
        # Before the steps: a cancelled pass may have created objects, so the next one must inspect the runtime.
        self._fresh = self._fresh and not plan.actions
        self._executor.retry_at = None
        # Containers without predecessors first: a kill waits only for terminations that are already in progress.
        kills = sorted((each for each in plan.actions if isinstance(each, Kill)), key=lambda each: len(each.after))
        for kill in kills:
            self._kill(kill)
        result, pulling = StepResult(), False
        pod = self.allocation.effective(self.pod)
        for action in plan.actions:
            match action:
                case MakeSandbox():
                    # Before the sandbox: after a kill the next agent must know every pod that the runtime has.
                    self._deps.checkpoints.save_now(self.pod, self.status, self.allocation.promised)
                    result.sandbox = await self._executor.make_sandbox(pod, action)
                case StopSandbox(id):
                    await self._deps.runtime.stop_sandbox(id)
                    self._stopped.add(id)
                    result.other = True
                case Start() if not pulling:
                    sandbox = self.seen.usable_sandbox(pod.host_network)
                    assert sandbox is not None, "nothing is started without one"
                    started = await self._executor.start(pod, action, sandbox, self.seen)
                    pulling = started is None
                    if started:
                        result.containers.append(started)
                        result.other = result.other or bool(action.instead)
                case Resize():
                    sandbox = self.seen.usable_sandbox(pod.host_network)
                    assert sandbox is not None, "nothing runs without one"
                    result.other = await self._executor.resize(pod, action, sandbox) or result.other
                case _:
                    pass
        if result.containers or self.seen.running:
            await self._executor.set_quota(pod)
        return result

    async def check_classes(self) -> None:
        """Check classes between passes: they may have been changed or redefined outside Tarmac. Raises RuntimeFault."""
        # A pass may begin during the inspection: both only correct deviations, and either reports the result.
        if self._pass is None and not self.ending and await self._refresh_classes():
            self.wake()

    async def _refresh_classes(self) -> bool:
        """Read the classes in effect and correct deviations; return True if they differ from the last ones reported."""
        pod, before = self.allocation.effective(self.pod), self._classes
        self._classes = await self._deps.classes.inspect(pod, self._deps.allocator.allot(pod), self.seen)
        return self._classes != before

    def _kill(self, action: Kill) -> None:
        grace: float = self._grace
        spec = self.pod.container(action.container.name) or {}
        probe = {"LivenessProbe": "livenessProbe", "StartupProbe": "startupProbe"}.get(action.reason)
        if probe and not self.pod.deleted:
            stated = (spec.get(probe) or {}).get("terminationGracePeriodSeconds")
            grace = grace if stated is None else stated
        if action.restart:
            self._replaced.add(action.container.id)
        if action.reason:
            self._unwell.add(action.container.id)
        self._terminator.kill(self.pod, action, grace, self._address)

    async def _finish(self) -> None:
        """Report the final state, release the pod's resources, report that it is over."""
        self._prober.stop()
        # Reported before the release, which may fail and be repeated; `over` only after it, because from then on other
        # pods may use the resources of this one.
        self._report_status(over=True)
        await self._executor.release(self.pod.uid)
        self.released = True
        self._deps.images.forget(self.pod.uid)
        self.over = True
        self._report_status(over=True)

    # --- status -----------------------------------------------------------------------------------------------------

    def _report_status(self, over: bool = False) -> None:
        self._initial_status_timer.clear()
        if not self._final_reported:
            self.status = self._compute_status(over)
        self._report(self.status, self.over)

    @property
    def _final_reported(self) -> bool:
        """True if the final status has been reported and no container is left that could add to it."""
        is_over = self.pod.finished or self.over
        return is_over and self.status.get("phase") in TERMINAL and not self.seen.containers

    def _compute_status(self, over: bool) -> JsonObject:
        return pod_status(
            StatusFacts(
                self.allocation.effective(self.pod),
                self.seen,
                self.status,
                self._now,
                self._deps.runtime_name(),
                self._deps.host_addresses(),
                waiting={} if self.ending else self._executor.waiting,
                started=self._prober.started,
                ready=self._prober.ready,
                applied=self._executor.applied,
                given=self._deps.allocator.shown(self.pod.uid),
                classes=self._classes,
                resizing=() if self.ending else self.allocation.conditions(self.pod, self._executor.applied),
                over=over or self.over,
                verdict=self._ending.verdict if self._ending else None,
            )
        )

    @property
    def _now(self) -> float:
        return self._deps.clock.now()

    @property
    def _grace(self) -> float:
        stated = self._ending.grace if self._ending else None
        return float(self.pod.grace if stated is None else stated)

    @property
    def _address(self) -> str:
        hosts = self._deps.host_addresses()
        if self.pod.host_network:
            return hosts[0] if hosts else ""
        sandbox = self.seen.usable_sandbox(host_network=False)
        return next(iter(in_order(sandbox.addresses, hosts)), "") if sandbox else ""

    def _deadline(self) -> float | None:
        """Return the deadline on the monotonic clock, so that setting the wall clock cannot end a pod."""
        seconds = self.pod.spec.get("activeDeadlineSeconds")
        began = self.status.get("startTime")
        if seconds is None or began is None or self.ending:
            return None
        if self._began is None or self._began[0] != began:
            # A start in the future means that the wall clock was set back: the pod gets its whole time again.
            ago = max(0.0, self._now - parse_rfc3339(began))
            self._began = began, self._deps.clock.monotonic() - ago
        return self._began[1] + seconds


def _same(pod: AgentPod, before: AgentPod) -> bool:
    """Return True if two versions differ only in status that this agent wrote."""
    return pod.spec == before.spec and pod.finished == before.finished and _foreign(pod) == _foreign(before)


def _foreign(pod: AgentPod) -> list[JsonObject]:
    return [each for each in pod.status.get("conditions") or () if each["type"] not in OURS]
