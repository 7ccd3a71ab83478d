"""Preemption: frees a node for a pod that fits nowhere by deleting pods of lower priority.

The choice is made in `decide/scheduling/preemption`. The pod is nominated to the node (`status.nominatedNodeName`), its
resources there are reserved, and each victim gets the condition `DisruptionTarget` and is deleted with its own grace
period. Until the victims are gone, no further pods are preempted for this pod. Only the reservation is kept in memory:
after a restart it is rebuilt from the nomination and the victims' conditions, and steps left undone between two writes
are decided again.

At each Location only a few preemptions run at a time, and the next ones are decided after they end, so a burst of
high-priority pods never empties a city at once. Beside another scheduler nothing is preempted: pods that it has bound
are not ours to delete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import msgspec

from tarmac.api.partial import Partial, PartialMetadata, PartialStatus
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.base.clock import rfc3339
from tarmac.base.log import log
from tarmac.client.cache import Item
from tarmac.client.errors import ClientError, NotLeader
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.client.informer import Informer
from tarmac.client.targets.untyped import BUDGETS, PODS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.scheduler.backlog import Waiter
from tarmac.controllers.scheduler.podfacts import read_facts
from tarmac.controllers.scheduler.schedulerstate import SchedulerState
from tarmac.decide import reasons
from tarmac.decide.scheduling import (
    BY_SCHEDULER,
    Pod,
    PreemptionCandidate,
    Scheduler,
    guard_of,
    is_reservation,
    may_preempt,
    named,
    reservation,
)

AT_ONCE = 4  # preemptions of one Location whose victims are still terminating
_READ_AT_ONCE = 1000  # pods read between two yields to the event loop
_OTHERS_FIRST = "Other pods have to make room at its Location first."
_MESSAGE = "tarmac: preempting to accommodate a higher priority pod"

_log = log("scheduler")


class _Status(PartialStatus):
    start_time: str | None = None


class _Pod(Partial):
    metadata: PartialMetadata
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def is_preempted(self) -> bool:
        """True if the pod is being deleted by a preemption."""
        going = self.metadata.deletion_timestamp is not None
        return going and any(each.reason == BY_SCHEDULER for each in self.status.conditions or ())


_read = msgspec.json.Decoder(_Pod).decode


@dataclass(frozen=True, slots=True)
class _Nomination:
    """A pod and the node reserved for it. `victims` must terminate first."""

    pod: Pod
    node: str
    victims: tuple[Pod, ...] = ()


class Preemptions:
    """The reservations of this process, by pod uid."""

    def __init__(self, context: ControllerContext, state: SchedulerState, scheduler: Scheduler) -> None:
        self._clock = context.client.clock
        self._recorder = context.recorder
        self._pods = context.client.resource(PODS.unread)
        self._state = state
        self._scheduler = scheduler
        self._budgets = context.informers.informer(BUDGETS) if context.settings.schedules_the_cluster else None
        self._nominated: dict[str, _Nomination] = {}
        self._jobs: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()  # few: see AT_ONCE
        state.pods.on_change(self._pod_changed)

    @property
    def informers(self) -> tuple[Informer[JsonObject], ...]:
        """Informers that must have synced before a preemption."""
        return (self._budgets,) if self._budgets is not None else ()

    async def run(self) -> NoReturn:
        """Write decided preemptions, until cancelled."""
        while True:
            job = await self._jobs.get()
            await job()

    async def adopt(self) -> None:
        """Adopt the nominations of an earlier process before any decision, since they count against `AT_ONCE`."""
        for number, waiter in enumerate(self._state.backlog.waiters, 1):
            if number % _READ_AT_ONCE == 0:
                await asyncio.sleep(0)  # pods may come and go meanwhile; a new pod has no nomination
            facts = self._state.facts(waiter)
            node = facts.status.nominated_node_name if facts is not None else ""
            pod = self._state.read(waiter).value if node else None
            if pod is not None:
                self._hold(_Nomination(pod, node, self._live_victims(pod, node)))

    def lift(self, waiter: Waiter) -> str:
        """Remove the pod's reservation while it is scheduled again.

        Return the node reserved for it, or an empty string.
        """
        held = self._nominated.get(waiter.uid)
        if held is None:
            return ""
        self._state.cluster.remove_pod(reservation(held.pod).uid)
        return held.node

    def forget(self, uid: str) -> None:
        """Drop the nomination: the pod has a node, or needs none any more."""
        held = self._nominated.pop(uid, None)
        if held is not None:
            self._state.cluster.remove_pod(reservation(held.pod).uid)

    def make_room(self, waiter: Waiter, pod: Pod, turn: int) -> str:
        """Start a preemption for the pod, if one helps and none is in progress. Return a sentence for its condition.

        Does not await: a change of the pod before it is set aside would queue it twice.
        """
        facts, cluster = self._state.facts(waiter), self._state.cluster
        if self._budgets is None:
            return ""
        if facts is None or facts.spec.preemption_policy == "Never" or not may_preempt(pod, cluster):
            self.forget(waiter.uid)
            return ""
        held = self._nominated.get(waiter.uid)
        nominated = held.node if held is not None else facts.status.nominated_node_name  # of an earlier process
        going = self._live_victims(pod, nominated)
        if going:
            self._hold(_Nomination(pod, nominated, going))
            # Victims are still ending: a second preemption now would delete more pods than needed.
            return _sentence(pod, nominated, going)
        self.forget(waiter.uid)
        if self._count_running(pod.demand.location) >= AT_ONCE:
            return _OTHERS_FIRST
        budgets = (self._budgets.get(key) for key in self._budgets.cache.keys())  # noqa: SIM118 - not a dict
        guards = [guard_of(budget) for budget in budgets if budget is not None]
        candidate = self._scheduler.preempt(pod, guards, self._start_time, turn)
        if candidate is None:
            return ""
        # for a pod without a required Location, it is known only now
        if self._count_running(self._location_of(candidate.node)) >= AT_ONCE:
            return _OTHERS_FIRST
        displaced = self._displaced(pod, candidate.node)
        self._hold(_Nomination(pod, candidate.node, candidate.victims))
        # Reserved above, written later: decisions in between already respect the nomination.
        self._jobs.put_nowait(partial(self._carry_out, waiter.key, candidate, pod, displaced))
        return _sentence(pod, candidate.node, candidate.victims)

    def is_free(self, uid: str) -> bool:
        """Return True if the pod was nominated to a node without a live victim: only a reservation was in its way.

        No change will follow that wakes the pod, so the caller must schedule it again by itself.
        """
        held = self._nominated.get(uid)
        return held is not None and not self._live_victims(held.pod, held.node)

    def _pod_changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        if old is None or old.metadata.uid not in self._nominated:
            return
        facts = read_facts(new.raw) if new is not None else None
        # Kept any longer, the reservation would block its node for ever.
        if facts is None or facts.spec.node_name or facts.ended or facts.metadata.deletion_timestamp is not None:
            self.forget(old.metadata.uid)

    def _hold(self, nomination: _Nomination) -> None:
        self._nominated[nomination.pod.uid] = nomination
        self._state.cluster.add_pod(reservation(nomination.pod), nomination.node)

    def _count_running(self, location: str) -> int:
        """Count the nominations with live victims at a Location, or of pods that require it (empty: none)."""
        nominated = self._nominated.values()
        held = (each for each in nominated if location in (each.pod.demand.location, self._location_of(each.node)))
        return sum(bool(self._live_victims(each.pod, each.node)) for each in held)

    def _location_of(self, node: str) -> str:
        info = self._state.cluster.nodes.get(node)
        return info.node.location if info is not None else ""

    def _live_victims(self, pod: Pod, node: str) -> tuple[Pod, ...]:
        """Return the victims still on the node: chosen by this process, or marked by their own condition."""
        info = self._state.cluster.nodes.get(node)
        if info is None:
            return ()
        held = self._nominated.get(pod.uid)
        chosen = {each.uid for each in held.victims} if held is not None and held.node == node else set[str]()
        lower = [each for each in info.pods.values() if each.priority < pod.priority]
        return tuple(each for each in lower if each.uid in chosen or self._is_preempted(each))

    def _displaced(self, pod: Pod, node: str) -> list[Pod]:
        """Drop the nominations of lower-priority pods for this node. Their pods must find a different node."""
        held = [each for each in self._nominated.values() if each.node == node and each.pod.priority < pod.priority]
        for each in held:
            self.forget(each.pod.uid)
        return [each.pod for each in held]

    async def _carry_out(self, key: str, candidate: PreemptionCandidate, pod: Pod, displaced: Iterable[Pod]) -> None:
        """Nominate first: after a crash before the deletions, the nomination shows that a preemption had begun.

        After a failure the nomination has no victims, and the preemption is decided again when the pod is next
        scheduled.
        """
        try:
            # Before the nomination: two pods nominated to one node would both count on its resources.
            for each in displaced:
                await self._nominate(each, None)
            # Before any deletion: after a crash, the nomination shows which preemption the missing pods belong to.
            await self._nominate(pod, candidate.node)
            for victim in candidate.victims:
                await self._end(victim, pod, candidate.node)
        except NotLeader:
            raise
        except (ApiError, ClientError) as error:
            _log.debug("preemption failed, will be decided again", pod=key, node=candidate.node, why=str(error))
            held = self._nominated.get(pod.uid)
            if held is not None:
                # Without victims: the next attempt must not wait for pods that were never deleted.
                self._nominated[pod.uid] = _Nomination(held.pod, held.node)

    async def _nominate(self, pod: Pod, node: str | None) -> None:
        body: JsonObject = {"status": {"nominatedNodeName": node}}
        with suppress(NotFound):
            await self._pods.patch(pod.name, body, pod.namespace, subresource="status", uid=pod.uid)

    async def _end(self, victim: Pod, by: Pod, node: str) -> None:
        """Write the reason as a condition, then delete. A victim already deleted or terminating needs neither.

        The event is read by users of the victim's namespace: it names a pod of another namespace by its uid only.
        """
        found = self._cached(victim)
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        condition = {"type": "DisruptionTarget", "status": "True", "reason": BY_SCHEDULER, "message": _MESSAGE}
        condition["lastTransitionTime"] = rfc3339(self._clock.now())
        body: JsonObject = {"status": {"conditions": [condition]}}
        name, namespace, uid = victim.name, victim.namespace, victim.uid
        with suppress(NotFound):
            await self._pods.patch(name, body, namespace, subresource="status", type="strategic", uid=uid)
            await self._pods.delete(name, namespace, uid=uid)
        about = InvolvedObject("v1", "Pod", name, namespace, uid)
        whose = f"{by.namespace}/{by.name}" if by.namespace == namespace else by.uid
        self._recorder.event(about, "Normal", reasons.PREEMPTED, f"Preempted by pod {whose} on node {node}")

    def _is_preempted(self, pod: Pod) -> bool:
        found = self._cached(pod)
        return found is not None and found.is_preempted

    def _start_time(self, pod: Pod) -> str:
        found = self._cached(pod)
        return (found.status.start_time or "") if found is not None else ""

    def _cached(self, pod: Pod) -> _Pod | None:
        """Return the pod as cached; None for a deleted one or a mere reservation."""
        item = None if is_reservation(pod) else self._state.pods.cache.item(f"{pod.namespace}/{pod.name}")
        return _read(item.raw) if item is not None and item.metadata.uid == pod.uid else None


def _sentence(pod: Pod, node: str, victims: Sequence[Pod]) -> str:
    if not victims:
        return f"It is to have the place of a less important pod on {node}."
    return f"Less important pods end on {node} to make room: {named(victims, pod.namespace)}."
