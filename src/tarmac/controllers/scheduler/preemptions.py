"""Makes room for a pod that fits nowhere, by ending pods of lower priority (`decide/scheduling/preemption`).

The pod is nominated to the node (`status.nominatedNodeName`), its place there is reserved, and its victims are told why
(`DisruptionTarget`) and deleted with their own grace. Until they are gone nobody else goes for this pod. What is
remembered here is only the reservation: after a restart it is read from the nomination and the victims' conditions, and
whatever was left undone between two writes is decided anew.

At one Location, few pods at a time may have victims on their way out: what the others would take away is seen only
after that, so a burst of important pods never empties a city at once. Beside another scheduler nobody goes at all: what
it has placed is not ours to end.
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
from tarmac.client.events import InvolvedObject
from tarmac.client.informer import Informer
from tarmac.client.targets.untyped import BUDGETS, PODS
from tarmac.controllers.context import Context
from tarmac.controllers.scheduler.backlog import Waiter
from tarmac.controllers.scheduler.podfacts import read_facts
from tarmac.controllers.scheduler.state import SchedulerState
from tarmac.decide import reasons
from tarmac.decide.scheduling import (
    BY_SCHEDULER,
    Candidate,
    Pod,
    Scheduler,
    guard_of,
    is_reservation,
    may_preempt,
    named,
    reservation,
)

AT_ONCE = 4  # pods of one Location that have victims on their way out
_READ_AT_ONCE = 1000  # pods that are read between chances for everybody else
_OTHERS_FIRST = "Others have to make room at its Location first."
_MESSAGE = "tarmac: preempting to accommodate a higher priority pod"

_log = log("scheduler")


class _Status(PartialStatus):
    start_time: str | None = None


class _Pod(Partial):
    metadata: PartialMetadata
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def is_preempted(self) -> bool:
        """Whether it goes for another."""
        going = self.metadata.deletion_timestamp is not None
        return going and any(each.reason == BY_SCHEDULER for each in self.status.conditions or ())


_read = msgspec.json.Decoder(_Pod).decode


@dataclass(frozen=True, slots=True)
class _Nomination:
    """A pod and the node that is reserved for it. `victims` have to go first."""

    pod: Pod
    node: str
    victims: tuple[Pod, ...] = ()


class Preemptions:
    """The reservations of this process, by the uid of their pod."""

    def __init__(self, context: Context, state: SchedulerState, scheduler: Scheduler) -> None:
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
        """What must be complete before anybody goes."""
        return (self._budgets,) if self._budgets is not None else ()

    async def run(self) -> NoReturn:
        """Write what was decided, until cancelled."""
        while True:
            job = await self._jobs.get()
            await job()

    async def adopt(self) -> None:
        """Take over what an earlier process began, before anything is decided: it counts among the few at a time."""
        for number, waiter in enumerate(self._state.backlog.waiters, 1):
            if number % _READ_AT_ONCE == 0:
                await asyncio.sleep(0)  # pods may come and go meanwhile; a new one has no nomination
            facts = self._state.facts(waiter)
            node = facts.status.nominated_node_name if facts is not None else ""
            pod = self._state.read(waiter).value if node else None
            if pod is not None:
                self._hold(_Nomination(pod, node, self._going(pod, node)))

    def take_back(self, waiter: Waiter) -> str:
        """The pod is looked at again: its place counts as free for it. The node that is reserved for it, if one is."""
        held = self._nominated.get(waiter.uid)
        if held is None:
            return ""
        self._state.cluster.remove_pod(reservation(held.pod).uid)
        return held.node

    def forget(self, uid: str) -> None:
        """The pod has a node, or wants none any more."""
        held = self._nominated.pop(uid, None)
        if held is not None:
            self._state.cluster.remove_pod(reservation(held.pod).uid)

    def make_room(self, waiter: Waiter, pod: Pod, turn: int) -> str:
        """Have others go for the pod, if that helps and is not under way; what is done about it, as a sentence.

        Nothing is awaited: until the pod is set aside, a change of it would make it wait a second time.
        """
        facts, cluster = self._state.facts(waiter), self._state.cluster
        if self._budgets is None:
            return ""
        if facts is None or facts.spec.preemption_policy == "Never" or not may_preempt(pod, cluster):
            self.forget(waiter.uid)
            return ""
        held = self._nominated.get(waiter.uid)
        nominated = held.node if held is not None else facts.status.nominated_node_name  # of an earlier process
        going = self._going(pod, nominated)
        if going:
            self._hold(_Nomination(pod, nominated, going))
            return _sentence(pod, nominated, going)
        self.forget(waiter.uid)
        if self._under_way(pod.demand.location) >= AT_ONCE:
            return _OTHERS_FIRST
        budgets = (self._budgets.get(key) for key in self._budgets.cache.keys())  # noqa: SIM118 - not a dict
        guards = [guard_of(budget) for budget in budgets if budget is not None]
        candidate = self._scheduler.preempt(pod, guards, self._started, turn)
        if candidate is None:
            return ""
        if self._under_way(self._location_of(candidate.node)) >= AT_ONCE:  # a pod that asks for no Location has one now
            return _OTHERS_FIRST
        displaced = self._displaced(pod, candidate.node)
        self._hold(_Nomination(pod, candidate.node, candidate.victims))
        self._jobs.put_nowait(partial(self._carry_out, waiter.key, candidate, pod, displaced))
        return _sentence(pod, candidate.node, candidate.victims)

    def _pod_changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        if old is None or old.metadata.uid not in self._nominated:
            return
        facts = read_facts(new.raw) if new is not None else None
        if facts is None or facts.spec.node_name or facts.ended or facts.metadata.deletion_timestamp is not None:
            self.forget(old.metadata.uid)

    def _hold(self, nomination: _Nomination) -> None:
        self._nominated[nomination.pod.uid] = nomination
        self._state.cluster.add_pod(reservation(nomination.pod), nomination.node)

    def _under_way(self, location: str) -> int:
        """Nominations at a Location, or of pods that ask for this one or for none, whose victims are still there."""
        nominated = self._nominated.values()
        held = (each for each in nominated if location in (each.pod.demand.location, self._location_of(each.node)))
        return sum(bool(self._going(each.pod, each.node)) for each in held)

    def _location_of(self, node: str) -> str:
        info = self._state.cluster.nodes.get(node)
        return info.node.location if info is not None else ""

    def _going(self, pod: Pod, node: str) -> tuple[Pod, ...]:
        """Who is still on the node and goes for the pod: as was decided here, or as they say themselves."""
        info = self._state.cluster.nodes.get(node)
        if info is None:
            return ()
        held = self._nominated.get(pod.uid)
        chosen = {each.uid for each in held.victims} if held is not None and held.node == node else set[str]()
        lower = [each for each in info.pods.values() if each.priority < pod.priority]
        return tuple(each for each in lower if each.uid in chosen or self._is_preempted(each))

    def _displaced(self, pod: Pod, node: str) -> list[Pod]:
        """Less important pods that wait for this node have to find another."""
        held = [each for each in self._nominated.values() if each.node == node and each.pod.priority < pod.priority]
        for each in held:
            self.forget(each.pod.uid)
        return [each.pod for each in held]

    async def _carry_out(self, key: str, candidate: Candidate, pod: Pod, displaced: Iterable[Pod]) -> None:
        """Nominate first: should we end before the victims do, the nomination says that somebody was at it.

        What fails is decided anew when the pod is next looked at: then nobody is on his way out.
        """
        try:
            for each in displaced:
                await self._nominate(each, None)
            await self._nominate(pod, candidate.node)
            for victim in candidate.victims:
                await self._end(victim, key, candidate.node)
        except NotLeader:
            raise
        except (ApiError, ClientError) as error:
            _log.debug("not preempted", pod=key, node=candidate.node, why=str(error))
            held = self._nominated.get(pod.uid)
            if held is not None:
                self._nominated[pod.uid] = _Nomination(held.pod, held.node)

    async def _nominate(self, pod: Pod, node: str | None) -> None:
        body: JsonObject = {"status": {"nominatedNodeName": node}}
        with suppress(NotFound):
            await self._pods.patch(pod.name, body, pod.namespace, subresource="status", uid=pod.uid)

    async def _end(self, victim: Pod, key: str, node: str) -> None:
        """Say why, then delete. A victim that is gone or going needs neither."""
        found = self._look(victim)
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
        self._recorder.event(about, "Normal", reasons.PREEMPTED, f"Preempted by pod {key} on node {node}")

    def _is_preempted(self, pod: Pod) -> bool:
        found = self._look(pod)
        return found is not None and found.is_preempted

    def _started(self, pod: Pod) -> str:
        found = self._look(pod)
        return (found.status.start_time or "") if found is not None else ""

    def _look(self, pod: Pod) -> _Pod | None:
        """A pod as our copy has it; None for one that is gone, or that only holds a place."""
        item = None if is_reservation(pod) else self._state.pods.cache.item(f"{pod.namespace}/{pod.name}")
        return _read(item.raw) if item is not None and item.metadata.uid == pod.uid else None


def _sentence(pod: Pod, node: str, victims: Sequence[Pod]) -> str:
    if not victims:
        return f"It is to have the place of a less important pod on {node}."
    return f"Less important pods end on {node} to make room: {named(victims, pod.namespace)}."
