"""Assigns a node to each Pod: decides one pod after the other; many bindings are written concurrently.

A decision takes effect at once (the pod is assumed to be on its node), so the next decision accounts for it. When a
binding fails, the assumption is undone and the pod is read again. Decisions do not wait for writes unless the queue of
writes is full.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from typing import NoReturn

from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.client.eventrecorder import EventType, InvolvedObject, Recorder
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.scheduler.backlog import Waiter
from tarmac.controllers.scheduler.interfaceassigner import PodInterfaceAssigner
from tarmac.controllers.scheduler.preemptions import Preemptions
from tarmac.controllers.scheduler.schedulerstate import SchedulerState
from tarmac.controllers.scheduler.writes import Bind, Explain, SchedulerWrites
from tarmac.decide import reasons
from tarmac.decide.scheduling import Pod, Scheduler
from tarmac.decide.verdict import Refusal, Verdict

AT_A_TIME = 32  # decisions between two yields to the event loop
POLL_INTERVAL = 0.5  # for pods that were set aside
BUSY = 200  # with more pods waiting than this, no events are recorded for each
_FAILURE_SECONDS = 60.0  # between two reports of a node that fails

_log = log("scheduler")


class PodScheduler:
    """Schedules the pods of `SchedulerState`."""

    def __init__(self, context: ControllerContext, state: SchedulerState, interfaces: PodInterfaceAssigner) -> None:
        self._clock = context.client.clock
        self._recorder: Recorder = context.recorder
        self._state = state
        self._scheduler = Scheduler(state.cluster, on_failure=self._node_fails)
        self._failing: dict[str, float] = {}  # when a failing node was last reported
        self._preemptions = Preemptions(context, state, self._scheduler)
        self._interfaces = interfaces
        interfaces.subnets.on_change(state.surroundings_changed)
        self._writes = SchedulerWrites(context.client, state, self._bound, self._failed)
        self._arrived = asyncio.Event()
        self._set_aside = asyncio.Event()
        self._turn = 0
        state.pods.on_change(self._changed)

    async def run(self) -> None:
        """Work until cancelled."""
        for informer in (*self._state.informers, *self._interfaces.informers, *self._preemptions.informers):
            # All caches first: in a partial copy nodes look emptier than they are.
            await informer.synced()
        # Before the first decision: it could give away resources that an earlier process had reserved.
        await self._preemptions.adopt()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._writes.run())
            group.create_task(self._preemptions.run())
            group.create_task(self._wake())
            group.create_task(self._decide_all())

    def _changed(self, _old: object, _new: object) -> None:
        if len(self._state.backlog):
            self._arrived.set()

    async def _decide_all(self) -> NoReturn:
        backlog = self._state.backlog
        while True:
            for _ in range(AT_A_TIME):
                waiter = backlog.take()
                if waiter is None:
                    # No await since the empty `take`: an arrival in between would be lost until the next one.
                    self._arrived.clear()
                    await self._arrived.wait()
                    break
                await self._schedule(waiter)
            else:
                await asyncio.sleep(0)

    async def _wake(self) -> NoReturn:
        """Requeue pods that were set aside, when their retry is due."""
        while True:
            await self._set_aside.wait()
            await self._clock.sleep(POLL_INTERVAL)
            self._state.backlog.wake(self._clock.monotonic())
            if not self._state.backlog.aside:
                self._set_aside.clear()
            if len(self._state.backlog):
                self._arrived.set()

    async def _schedule(self, waiter: Waiter) -> None:
        """Decide about one pod. An unexpected error must not stop the remaining pods."""
        try:
            await self._decide(waiter)
        except Exception as error:
            end_if_out_of_memory(error)
            where = traceback.format_exc(limit=-3)
            _log.error("reconcile failed", controller="pod-scheduler", key=waiter.key, error=repr(error), where=where)
            message = f"The scheduler failed with {type(error).__name__}; its log has the details. It retries."
            self._event(waiter, "Warning", "FailedScheduling", message)
            self._put_back(waiter)

    def _node_fails(self, node: str, error: Exception) -> None:
        """Report a node that pods cannot be compared with, which must not keep them from the other nodes."""
        end_if_out_of_memory(error)
        now = self._clock.monotonic()
        if now - self._failing.get(node, float("-inf")) < _FAILURE_SECONDS:
            return
        self._failing = {name: at for name, at in self._failing.items() if now - at < _FAILURE_SECONDS} | {node: now}
        _log.error("a node is left out", controller="pod-scheduler", node=node, error=repr(error))
        message = f"The scheduler failed with {type(error).__name__} for this node and leaves it out."
        self._recorder.event(InvolvedObject("v1", "Node", node), "Warning", "FailedScheduling", message)

    async def _decide(self, waiter: Waiter) -> None:
        read = self._state.read(waiter)
        if read.value is None:
            await self._refuse(waiter, read.refusals)
            return
        self._turn += 1
        verdict = self._choose(read.value, self._preemptions.lift(waiter))
        if verdict.value is None:
            room = self._preemptions.make_room(waiter, read.value, self._turn)
            await self._refuse(waiter, verdict.refusals, room, retry=self._preemptions.is_free(waiter.uid))
            return
        self._preemptions.forget(waiter.uid)
        interfaces = await self._interfaces_at(waiter, verdict.value)
        if interfaces.value is not None:
            # Assumed before the await: the next decision must count this pod, or both get the same room.
            self._state.place(read.value, verdict.value)
            await self._writes.put(Bind(waiter, read.value, verdict.value, interfaces.value))
        elif interfaces.refusals[0].reason != reasons.PROVISIONING_NETWORK:
            await self._refuse(waiter, interfaces.refusals)
        # The pod may have been deleted during the await: put back, it would be retried for ever.
        elif self._state.waits(waiter):
            self._put_back(waiter)

    def _choose(self, pod: Pod, reserved: str) -> Verdict[str]:
        """Return the node reserved for the pod if it fits there now, otherwise choose one."""
        if reserved and self._scheduler.takes(pod, reserved):
            return Verdict(reserved)
        return self._scheduler.choose(pod, self._turn)

    async def _interfaces_at(self, waiter: Waiter, node: str) -> Verdict[str]:
        pod = self._state.pods.cache.item(waiter.key)
        assert pod is not None, "a pod that waits is in our copy"
        return await self._interfaces.of(pod, self._state.cluster.nodes[node].node.labels.get(LABEL_LOCATION, ""))

    async def _refuse(
        self, waiter: Waiter, refusals: Sequence[Refusal], room: str = "", *, retry: bool = False
    ) -> None:
        """Report why no node fits. `retry`: schedule the pod again after its delay, without waiting for a change."""
        backlog = self._state.backlog
        (backlog.put_back if retry else backlog.set_aside)(waiter, self._clock.monotonic())
        self._set_aside.set()
        message = f"{refusals[0].message} {room}".rstrip()
        if len(self._state.backlog) < BUSY:
            self._event(waiter, "Warning", "FailedScheduling", message)
        await self._writes.put(Explain(waiter.key, waiter.uid, refusals[0].reason, message))

    def _bound(self, job: Bind) -> None:
        if len(self._state.backlog) < BUSY:
            self._event(job.waiter, "Normal", "Scheduled", f"Assigned {job.waiter.key} to {job.node}")

    def _failed(self, job: Bind) -> None:
        """Undo the assumption, unless the cache shows the pod on this node; retry the pod if it still waits."""
        state, waiter = self._state, job.waiter
        facts = state.facts(waiter)
        if state.cluster.node_of(waiter.uid) == job.node and (facts is None or facts.spec.node_name != job.node):
            state.cluster.remove_pod(waiter.uid)
        if state.waits(waiter):
            self._put_back(waiter)

    def _put_back(self, waiter: Waiter) -> None:
        self._state.backlog.put_back(waiter, self._clock.monotonic())
        self._set_aside.set()

    def _event(self, waiter: Waiter, type: EventType, reason: str, message: str) -> None:
        namespace, _, name = waiter.key.partition("/")
        self._recorder.event(InvolvedObject("v1", "Pod", name, namespace, waiter.uid), type, reason, message)
