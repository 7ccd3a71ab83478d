"""One pod's worker: look, decide, act, tell; then wait to be woken.

It is woken by a new definition, an event of the runtime, a probe, an image that has come, a container that was ended,
or by its alarm. Whatever woke it, it does the same: looks at everything, unless events told only of what it has seen,
such as the start of a container that it started itself. A pass that is under way when the pod has to end is cut short;
what it had done is seen by the next.

A worker that is cancelled leaves all containers as they are: the next agent adopts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tarmac.agent.allocation.promises import Fits, PodPromises, Resizes
from tarmac.agent.model.backoff import BackOffs
from tarmac.agent.model.classes import NO_CLASSES
from tarmac.agent.model.pod import Pod
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.agent.model.waits import Alarm
from tarmac.agent.pods.dependencies import PodDependencies
from tarmac.agent.pods.executor import StepExecutor, StepFailed
from tarmac.agent.pods.inspection import Looker, Made
from tarmac.agent.pods.podactions import Kill, MakeSandbox, PodActions, Resize, Situation, Start, StopSandbox, decide
from tarmac.agent.pods.termination import Killer
from tarmac.agent.probes.prober import Prober
from tarmac.agent.status.conditions import OURS
from tarmac.agent.status.facts import TOO_LONG, PodTermination, StatusFacts
from tarmac.agent.status.podstatus import in_order, pod_status, rejected_status
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.client.backoff import Backoff
from tarmac.runtimes.interface import RuntimeEvent, RuntimeFault

FIRST_RETRY = 1.0
LONGEST_RETRY = 20.0

TOGETHER = 0.05
"""Events of the runtime within so many seconds of each other are answered by one look."""

FIRST_WORDS = 0.5
"""That a pod has begun is told after so many seconds, unless there is more to tell by then: mostly it runs."""

_log = log("pods")


@dataclass(frozen=True, slots=True)
class Ending:
    """The pod has to end. `grace`: None for the pod's own. `verdict`: when it is the node that ends it."""

    grace: float | None = None
    verdict: PodTermination | None = None


class PodWorker:
    """Looks after one pod. `report(status, over)` is called with every status that is worked out.

    `promised` are resources that an earlier agent allotted, `refused` the status of a pod that may not run here;
    `fresh`: the runtime is known to have nothing of it.
    """

    def __init__(
        self,
        tools: PodDependencies,
        pod: Pod,
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
        """Nothing of it runs, nothing will, and what it had is given back."""
        self.released = False
        """It was this worker that gave it back. Of a pod that was refused, an earlier agent may have left something."""
        self.allocation = PodPromises(pod, promised)
        self._tools = tools
        self._report = report
        self._fits = fits
        self._ending: Ending | None = Ending() if pod.deleted else None
        self._woken = asyncio.Event()
        self._rumours: list[RuntimeEvent | None] = []
        self._tasks = Tasks()
        self._pass: asyncio.Future[None] | None = None
        self._cut = False
        self._back_offs = BackOffs(longest=tools.settings.crash_loop_longest)
        self._hands = StepExecutor(tools, self._back_offs, self.wake)
        self._killer = Killer(tools, self.wake)
        self._prober = Prober(tools.checks, tools.recorder, tools.clock, tools.randomness, self.wake)
        self._prober.adopt(pod, pod.status)
        self._looker = Looker(tools.runtime, tools.paths, pod.uid)
        self._alarm = Alarm(tools.clock)
        self._began: tuple[str, float] | None = None  # the pod's startTime, and the monotonic clock then
        self._stirred = Alarm(tools.clock)
        self._begun = Alarm(tools.clock)
        self._retry = Backoff(tools.randomness, FIRST_RETRY, LONGEST_RETRY)
        self._replaced: set[str] = set()
        self._stopped: set[str] = set()
        self._backed_off: set[tuple[str, str]] = set()
        self._untouched = fresh
        self._classes = NO_CLASSES
        self.wake()

    # --- what others call -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look again now."""
        self._woken.set()

    def stir(self, event: RuntimeEvent | None) -> None:
        """Look again soon: the runtime tells of every step, and one look is enough for those that come together."""
        self._rumours.append(event)
        self._stirred.set(TOGETHER, self._weigh_rumours)

    def try_again(self) -> None:
        """Something it refers to has changed: what failed may work now, and files may be out of date."""
        self._hands.out_of_date()
        self.wake()

    def update(self, pod: Pod) -> None:
        """The definition changed."""
        before, self.pod = self.pod, pod
        if pod.deleted and (self._ending is None or pod.grace < before.grace or not before.deleted):
            self.end(Ending(verdict=self._ending.verdict if self._ending else None))
        elif not _same(pod, before):
            self.wake()

    def end(self, ending: Ending) -> None:
        """Let the pod end; if it is ending already, not later than this."""
        begins = self._ending is None
        self._ending = ending
        if begins and self._pass is not None:
            self._cut = True
            self._pass.cancel()
        self._killer.shorten(self._grace)
        self.wake()

    @property
    def ending(self) -> bool:
        """Whether it will not run any longer."""
        return self._ending is not None or self.pod.finished or self.status.get("phase") in TERMINAL

    def _weigh_rumours(self) -> None:
        """In the middle of a pass it is too early to tell whether they are news: then they wait for its end."""
        if self._pass is not None:
            return
        rumours, self._rumours = self._rumours, []
        if not all(event is not None and self.seen.shows(event) for event in rumours):
            self.wake()

    # --- the loop ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. A pod that is over still answers to updates: its object may outlive it."""
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                self._alarm.clear()
                self._pass = self._tasks.promise(self._attend(), f"pass of {self.pod.key}")
                try:
                    await self._pass
                except asyncio.CancelledError:
                    # The pass was cut short by `end`, or the worker itself is cancelled, or both in one turn, which
                    # comes as one exception. Taken for the cut alone, the agent would wait for this worker for ever.
                    this = asyncio.current_task()
                    if not self._cut or (this is not None and this.cancelling()):
                        raise
                    self._woken.set()
                finally:
                    self._pass, self._cut = None, False
                if self._rumours:
                    self._stirred.set(TOGETHER, self._weigh_rumours)
        finally:
            self._alarm.clear()
            self._stirred.clear()
            self._begun.clear()
            self._prober.stop()
            self._killer.stop()

    async def _attend(self) -> None:
        """One pass, whatever happens in it."""
        try:
            await self._once()
            self._retry.reset()
        except StepFailed:
            self._tell()
            self._alarm.set(self._retry.next(), self.wake)
        except RuntimeFault as error:
            _log.info("runtime in the way", pod=self.pod.key, error=str(error))
            self._alarm.set(self._retry.next(), self.wake)
        except Exception as error:
            _log.error("pod not attended to", pod=self.pod.key, error=repr(error))
            self._alarm.set(self._retry.next(), self.wake)

    async def _once(self) -> None:
        if self.over:
            self._tell()
            return
        self.allocation.consider(self.pod, self._fits)
        self.seen = PodRuntimeState() if self._untouched else await self._looker.look()
        if self._untouched and not self.ending and await self._refused():
            return
        while True:
            plan = self._decide()
            if plan.finished:
                await self._finish()
                return
            if plan.actions and not self.status.get("startTime"):
                self.status = self._work_out(over=False)
                self._begun.set(FIRST_WORDS, self._tell)
            made = await self._act(plan)
            if not made:
                break
            self.seen = await (self._looker.look() if made.other else self._looker.look_at(made))
        await self._hands.refresh(self.pod, self.seen)
        await self._look_at_classes()
        self._tell()
        now, passed = self._now, self._tools.clock.monotonic()
        waits = [] if plan.wake_at is None else [plan.wake_at - now]
        waits += [each - passed for each in (self._hands.ask_again, self._deadline()) if each is not None]
        if waits:
            self._alarm.set(max(0.0, min(waits)), self.wake)

    async def _refused(self) -> bool:
        """Whether somebody who had to be asked will not have the pod. A pass that is cut short here is begun anew."""
        why = await self._tools.allocator.prepare(self.pod)
        if why is None:
            return False
        reason, message = why
        _log.info("pod refused", pod=self.pod.key, reason=reason)
        self._tools.recorder.event(self.pod.reference, "Warning", reason, message)
        self.status = rejected_status(self.pod, reason, message, self._now)
        self.over = True
        self._tell()
        return True

    def _decide(self) -> PodActions:
        pod = self.allocation.effective(self.pod)
        classes = {name: each.classes for name, each in self._tools.allocator.allot(pod).containers.items()}
        self._hands.adopt(self.seen, self.allocation.promised, classes)
        deadline = self._deadline()
        if self._ending is None and deadline is not None and deadline <= self._tools.clock.monotonic():
            self._ending = Ending(verdict=TOO_LONG)
            self._tools.recorder.event(self.pod.reference, "Normal", TOO_LONG.reason, TOO_LONG.message)
        self._prober.follow(pod, self.seen, self._address, ending=self.ending)
        plan = decide(
            Situation(
                pod,
                self.seen,
                self._now,
                ending=self.ending,
                started=self._prober.started,
                unhealthy=self._prober.unhealthy,
                killing=self._killer.busy,
                replaced=self._replaced,
                stopped=self._stopped,
                back_offs=self._back_offs,
                applied=self._hands.applied,
                classes=classes,
                classed=self._hands.classed,
            )
        )
        self._note_back_offs(plan)
        return plan

    def _note_back_offs(self, plan: PodActions) -> None:
        waiting = self._hands.waiting
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
                self._tools.recorder.event(self.pod.container_reference(name), "Warning", "BackOff", message)

    async def _act(self, plan: PodActions) -> Made:
        """Take the steps; what came of them. Nothing: there is no need to look again."""
        self._untouched = self._untouched and not plan.actions
        self._hands.ask_again = None
        kills = sorted((each for each in plan.actions if isinstance(each, Kill)), key=lambda each: len(each.after))
        for kill in kills:
            self._kill(kill)
        made, pulling = Made(), False
        pod = self.allocation.effective(self.pod)
        for action in plan.actions:
            match action:
                case MakeSandbox():
                    self._tools.kept.keep_now(self.pod, self.status, self.allocation.promised)
                    made.sandbox = await self._hands.make_sandbox(pod, action)
                case StopSandbox(id):
                    await self._tools.runtime.stop_sandbox(id)
                    self._stopped.add(id)
                    made.other = True
                case Start() if not pulling:
                    sandbox = self.seen.usable_sandbox(pod.host_network)
                    assert sandbox is not None, "nothing is started without one"
                    started = await self._hands.start(pod, action, sandbox, self.seen)
                    pulling = started is None
                    if started:
                        made.containers.append(started)
                        made.other = made.other or bool(action.instead)
                case Resize():
                    sandbox = self.seen.usable_sandbox(pod.host_network)
                    assert sandbox is not None, "nothing runs without one"
                    made.other = await self._hands.resize(pod, action, sandbox) or made.other
                case _:
                    pass
        if made.containers or self.seen.running:
            await self._hands.set_quota(pod)
        return made

    async def check_classes(self) -> None:
        """Somebody may have changed them behind our back, or they may mean something else now. Raises RuntimeFault."""
        if self._pass is None and not self.ending and await self._look_at_classes():
            self.wake()

    async def _look_at_classes(self) -> bool:
        """Which are in effect, and put right what is not; whether something else is to be told than before."""
        pod, before = self.allocation.effective(self.pod), self._classes
        self._classes = await self._tools.classes.look(pod, self._tools.allocator.allot(pod), self.seen)
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
        self._killer.kill(self.pod, action, grace, self._address)

    async def _finish(self) -> None:
        """The last containers have ended: tell how, then give everything back."""
        self._prober.stop()
        self._tell(over=True)
        await self._hands.release(self.pod.uid)
        self.released = True
        self._tools.images.forget(self.pod.uid)
        self.over = True
        self._tell(over=True)

    # --- telling ----------------------------------------------------------------------------------------------------

    def _tell(self, over: bool = False) -> None:
        self._begun.clear()
        if not self._settled:
            self.status = self._work_out(over)
        self._report(self.status, self.over)

    @property
    def _settled(self) -> bool:
        """Its end has been told, and nothing is left here that could add to it."""
        told = self.pod.finished or self.over
        return told and self.status.get("phase") in TERMINAL and not self.seen.containers

    def _work_out(self, over: bool) -> JsonObject:
        return pod_status(
            StatusFacts(
                self.allocation.effective(self.pod),
                self.seen,
                self.status,
                self._now,
                self._tools.runtime_name(),
                self._tools.host_addresses(),
                waiting={} if self.ending else self._hands.waiting,
                started=self._prober.started,
                ready=self._prober.ready,
                applied=self._hands.applied,
                given=self._tools.allocator.shown(self.pod.uid),
                classes=self._classes,
                resizing=() if self.ending else self.allocation.conditions(self.pod, self._hands.applied),
                over=over or self.over,
                verdict=self._ending.verdict if self._ending else None,
            )
        )

    @property
    def _now(self) -> float:
        return self._tools.clock.now()

    @property
    def _grace(self) -> float:
        stated = self._ending.grace if self._ending else None
        return float(self.pod.grace if stated is None else stated)

    @property
    def _address(self) -> str:
        hosts = self._tools.host_addresses()
        if self.pod.host_network:
            return hosts[0] if hosts else ""
        sandbox = self.seen.usable_sandbox(host_network=False)
        return next(iter(in_order(sandbox.addresses, hosts)), "") if sandbox else ""

    def _deadline(self) -> float | None:
        """On the monotonic clock, so that nobody ends a pod by setting the wall clock."""
        seconds = self.pod.spec.get("activeDeadlineSeconds")
        began = self.status.get("startTime")
        if seconds is None or began is None or self.ending:
            return None
        if self._began is None or self._began[0] != began:
            ago = max(0.0, self._now - parse_rfc3339(began))
            self._began = began, self._tools.clock.monotonic() - ago
        return self._began[1] + seconds


def _same(pod: Pod, before: Pod) -> bool:
    """Whether two versions differ only in what we ourselves have said of the pod."""
    return pod.spec == before.spec and pod.finished == before.finished and _foreign(pod) == _foreign(before)


def _foreign(pod: Pod) -> list[JsonObject]:
    return [each for each in pod.status.get("conditions") or () if each["type"] not in OURS]
