"""All simulated nodes of a process: they see what is bound to them and do as nodes do, without running anything.

One watch over pods serves every node, and the loop's own timers move pods along, so a node costs nothing while nothing
happens on it. What a pod really does is in `SimulatedPod`; a queue of pods whose status has to be told works through
the API, each pod by one worker at a time and with back-off.

A node may be *dead* (its pods are gone with it), *cut off* (its pods run on, it hears and tells nothing) or *without an
agent* (its pods run on, and nobody starts or ends any). Each way it misses changes, so a node that comes back lists its
pods anew, as after a restart.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from tarmac.agent.model.allotment import Refusal
from tarmac.agent.status.facts import TOO_LONG
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.base.clock import rfc3339
from tarmac.base.duration import parse_duration
from tarmac.base.pieces import Work
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.controller import Controller
from tarmac.client.reflector import Reflector
from tarmac.client.targets.target import encode
from tarmac.client.targets.untyped import PODS
from tarmac.client.watch import Change
from tarmac.decide.reasons import GUEST_PANICKED
from tarmac.sim.nodes.deadlines import Deadlines
from tarmac.sim.nodes.disks import SimDisks
from tarmac.sim.nodes.heartbeat import Keeper
from tarmac.sim.nodes.model import NodeModel
from tarmac.sim.nodes.needs import Needs, Unready, refers
from tarmac.sim.nodes.pod import PodStage, SimPod, SimulatedPod, view_of
from tarmac.sim.nodes.relaying import SimRelays
from tarmac.sim.nodes.settings import (
    BOOT,
    CRASH_AFTER,
    PANIC_AFTER,
    Behaviour,
    HeartbeatSettings,
    NodeShape,
    SimLocation,
    drawn,
)
from tarmac.sim.nodes.simulatednode import SimulatedNode

REPORTERS = 32
LOOK_AGAIN_SECONDS = 5.0  # for what a pod refers to and is not there
_KILLED = 137
_LOOPS = 4  # crashes of a pod that loops for a while
_decode = msgspec.json.Decoder(JsonObject).decode


class Fleet:
    """The nodes. `run` makes them live; `die`, `revive`, `cut` and `heal` are for faults and drills."""

    def __init__(
        self,
        client: Client,
        places: Iterable[SimLocation],
        *,
        shape: NodeShape | None = None,
        models: Mapping[str, NodeModel] | None = None,
        behaviour: Behaviour | None = None,
        heartbeat: HeartbeatSettings | None = None,
        external: bool = True,
    ) -> None:
        self.places = tuple(places)
        self.behaviour = behaviour or Behaviour()
        self.happened: Counter[str] = Counter()  # started, crashed, killed, stopped, unpullable
        plain = NodeModel.plain(shape or NodeShape())
        self.nodes = {
            name: SimulatedNode(name, place, number, (models or {}).get(place.name, plain), external=external)
            for number, (place, name) in enumerate(
                (place, name) for place in self.places for name in place.node_names()
            )
        }
        self._client = client
        self._clock = client.clock
        self._randomness: Randomness = client.randomness
        self._pods: dict[str, SimulatedPod] = {}  # by uid
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._deadlines = Deadlines(client.clock, self._expire)
        self._resource = client.resource(PODS)
        self._telling = client.resource(PODS.unread)
        self._reports = Controller(
            "simulated-pods", self._report, clock=client.clock, randomness=client.randomness, workers=REPORTERS
        )
        self._needs = Needs(client)
        self._checks = Controller(
            "simulated-needs", self._check_needs, clock=client.clock, randomness=client.randomness, workers=REPORTERS
        )
        self._external = external
        self.relays = SimRelays(client, self.nodes)
        beat = heartbeat or HeartbeatSettings.for_fleet(len(self.nodes))
        self._keeper = Keeper(client, self.nodes, beat, returned=self._returned, strike=self._strike)

    async def run(self) -> None:
        """Live until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run())
            group.create_task(Reflector(self._client, PODS, self).run())
            group.create_task(self._reports.run())
            group.create_task(self._needs.run())
            group.create_task(self._checks.run())
            group.create_task(SimDisks(self._client, self.nodes).run())
            if self._external:
                group.create_task(self.relays.run())

    async def registered(self) -> None:
        """Wait until every node is known to the API."""
        await self._keeper.registered.wait()

    def pods(self) -> Iterator[SimulatedPod]:
        """Every pod that some node has, by what it really does."""
        return iter(tuple(self._pods.values()))

    # What faults and drills do.

    def die(self, name: str) -> None:
        """The node loses power: nothing on it runs any more."""
        node = self.nodes[name]
        node.alive = False
        self.relays.lose_power(name)
        for pod in node.pods():
            self._forget(pod)

    def revive(self, name: str) -> None:
        """The node boots; what is still bound to it starts again."""
        self.nodes[name].alive = self.nodes[name].attended = True
        self._keeper.look_at(name)

    def cut(self, name: str) -> None:
        """Nothing reaches the node or comes from it; its pods run on."""
        self.nodes[name].reachable = False

    def heal(self, name: str) -> None:
        """The node is connected again."""
        self.nodes[name].reachable = True
        self._keeper.look_at(name)

    def end_agent(self, name: str) -> None:
        """The agent of the node ends; what runs there runs on."""
        self.nodes[name].attended = False

    def start_agent(self, name: str) -> None:
        """Another agent takes the node up: it finds what runs, and begins anew with what does not."""
        node = self.nodes[name]
        node.attended = True
        self.relays.agent_started(name)
        for pod in node.pods():
            if pod.runs:
                self._adopt(pod)
            elif pod.stage in (PodStage.WAITING, PodStage.UNCONFIGURED, PodStage.BACKOFF):
                again = self._restart if pod.stage is PodStage.BACKOFF else self._start
                self._after(drawn(self._randomness, self.behaviour.start), pod, again)
        self._keeper.look_at(name)

    def _adopt(self, pod: SimulatedPod) -> None:
        """Its processes are none of the agent's: they go on, and are told of."""
        self._reports.queue.add(pod.uid)

    def _strike(self, node: SimulatedNode, fault: str) -> None:
        """What the annotation of a node asks for."""
        if fault == "dead":
            self.die(node.name)
        elif fault == "cut":
            self.cut(node.name)
        else:
            self.revive(node.name)
            self.heal(node.name)

    def calm(self) -> None:
        """No start goes wrong by bad luck any more; what crashes on purpose still does."""
        self.behaviour = replace(self.behaviour, fails=0.0, crash_loops=0.0, out_of_memory=0.0)
        for pod in self._pods.values():
            pod.doomed = 0
            if pod.stage is PodStage.RUNNING and CRASH_AFTER not in pod.annotations:
                self._cancel(pod)

    # What the shared watch tells.

    def replaced(self, state: Sequence[Change]) -> Work[None]:
        """Everything that exists; pods that do not are ended."""
        present = {change.metadata.uid for change in state}
        for pod in [pod for uid, pod in self._pods.items() if uid not in present]:
            self._vanished(pod)
            yield
        for change in state:
            self.changed(change)
            yield

    def changed(self, change: Change) -> None:
        """One change of a pod."""
        if change.type == "DELETED":
            pod = self._pods.get(change.metadata.uid)
            if pod is not None:
                self._vanished(pod)
            return
        view = view_of(change.raw)
        node = self.nodes.get(view.spec.node_name)
        if node is not None and node.hears:
            self._see(node, view, change.raw)

    def _see(self, node: SimulatedNode, view: SimPod, raw: bytes | msgspec.Raw) -> None:
        pod = self._pods.get(view.metadata.uid)
        if pod is None:
            pod = self._take(node, view, raw)
            if pod is not None:
                pod.refers = refers(raw)
                self._deadlines.keep(pod)
        else:
            self._read(pod, view)
        if view.metadata.deletion_timestamp and pod is not None:
            self._stop(pod)

    def _read(self, pod: SimulatedPod, view: SimPod) -> None:
        """A pod that this node has, as it is now. Of one that is to go, its end is all that is left to tell."""
        limit, addresses = pod.deadline, pod.addresses
        pod.read(view)
        if limit != pod.deadline:
            self._deadlines.keep(pod)
        fresh = view.status.observed_generation != pod.generation or addresses != pod.addresses
        tellable = pod.stage is not PodStage.WAITING and not view.metadata.deletion_timestamp
        if (fresh and tellable) or view.status.ready is not (pod.stage is PodStage.RUNNING):
            self._reports.queue.add(pod.uid)  # changed, or somebody thought the node dead and said so of its pods

    def _take(self, node: SimulatedNode, view: SimPod, raw: bytes | msgspec.Raw) -> SimulatedPod | None:
        """A pod that this node has not seen: a new one, or one it had before it went away."""
        pod = SimulatedPod(view, self._now())
        pod.whole = _decode(raw) if node.judges else None
        if view.status.phase in TERMINAL:
            if not view.metadata.deletion_timestamp:
                return None
            pod.stage = PodStage.FAILED
        self._pods[pod.uid] = pod
        node.add(pod)
        if view.status.phase != "Running":
            self._after(drawn(self._randomness, self.behaviour.start), pod, self._start)
            return pod
        if node.booted:
            pod.restarts += 1
            pod.lose(self._now())
        node.adopt(pod)
        # A machine whose node lost power boots again; one that was ready is, whoever looks after it now.
        self._run(pod, ready=view.status.ready and not node.booted)
        if node.booted or not view.status.ready:
            self._reports.queue.add(pod.uid)
        return pod

    def _vanished(self, pod: SimulatedPod) -> None:
        """Its object is gone: whatever runs is killed."""
        if self.nodes[pod.node].hears:
            self._forget(pod)

    def _forget(self, pod: SimulatedPod) -> None:
        self._cancel(pod)
        self._deadlines.forget(pod)
        self._pods.pop(pod.uid, None)
        self.nodes[pod.node].remove(pod)

    async def _returned(self, node: SimulatedNode) -> None:
        """A node that was away catches up. What it had and nobody knows any more ends; the rest is told again."""
        had = node.pods()
        self.relays.returned(node.name)
        page = await self._resource.list(fields=f"spec.nodeName={node.name}")
        present = {obj["metadata"]["uid"] for obj in page.items}
        node.keep_only(present)
        for pod in had:
            if pod.uid not in present:
                self._forget(pod)
            else:
                self._reports.queue.add(pod.uid)
        for obj in page.items:
            raw = encode(obj)
            self._see(node, view_of(raw), raw)
        node.booted = False
        node.behind = node.away  # it may have gone away again meanwhile

    # What pods do.

    def _start(self, pod: SimulatedPod) -> None:
        """As an agent: is it taken at all, is everything there that it refers to, and then its images."""
        if not self.nodes[pod.node].attended:
            return  # the next agent begins anew
        try:
            refused = self._needs.refusal(pod) or self._judged(pod)
        except Unready as unready:
            self._wait_for_needs(pod, unready)
            return
        if refused is not None:
            reason, message = refused
            pod.give_up(reason, f"Pod was rejected: {message}", self._now())
            self.happened["refused"] += 1
            self._reports.queue.add(pod.uid)
        elif pod.refers:
            self._checks.queue.add(pod.uid)
        else:
            self._begin(pod)

    def _judged(self, pod: SimulatedPod) -> Refusal | None:
        """Whether its node takes it. Raises Unready while the node does not know yet what else it has."""
        node = self.nodes[pod.node]
        if node.judges and node.behind:  # pods that are gone meanwhile still count
            raise Unready({})
        return node.refusal(pod, self._needs.handler(pod))

    async def _check_needs(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None or not self.nodes[pod.node].hears:
            return
        try:
            raw = await self._resource.get(pod.name, pod.namespace)
            await self._needs.check(raw, self.nodes[pod.node].address)
        except NotFound:
            return  # the watch tells in time
        except Unready as unready:
            if self._may_begin(pod):
                self._wait_for_needs(pod, unready)
            return
        if self._may_begin(pod):
            self._begin(pod)

    def _may_begin(self, pod: SimulatedPod) -> bool:
        """Whether it is still to start: while something was asked, it may have gone or been given up."""
        return self._pods.get(pod.uid) is pod and pod.stage in (
            PodStage.WAITING,
            PodStage.UNCONFIGURED,
            PodStage.BACKOFF,
        )

    def _wait_for_needs(self, pod: SimulatedPod, unready: Unready) -> None:
        if pod.lack(unready.containers):
            self._reports.queue.add(pod.uid)
        self._after(LOOK_AGAIN_SECONDS, pod, self._start)

    def _expire(self, pod: SimulatedPod) -> None:
        if pod.stage in (PodStage.FAILED, PodStage.STOPPING, PodStage.STOPPED):
            return
        self._cancel(pod)
        self.nodes[pod.node].release(pod)
        pod.give_up(TOO_LONG.reason, TOO_LONG.message, self._now())
        self._reports.queue.add(pod.uid)

    def _begin(self, pod: SimulatedPod) -> None:
        if not pod.pullable:
            self.happened["unpullable"] += 1
            pod.stage = PodStage.UNPULLABLE
        else:
            self.happened["started"] += 1
            self._run(pod)
        self._reports.queue.add(pod.uid)

    def _run(self, pod: SimulatedPod, *, ready: bool = False) -> None:
        """Its containers start, or go on; a machine that is not ready boots first."""
        if ready or not pod.is_machine:
            pod.begin(self._now())
            self._plan_end(pod)
            return
        pod.boot(self._now())
        stated = pod.annotations.get(BOOT)
        self._after(self.behaviour.boot if stated is None else _seconds(stated), pod, self._booted)

    def _booted(self, pod: SimulatedPod) -> None:
        pod.booted(self._now())
        self._plan_end(pod)
        self._reports.queue.add(pod.uid)

    def _plan_end(self, pod: SimulatedPod) -> None:
        """Whether and when this start goes wrong."""
        behaviour, randomness = self.behaviour, self._randomness
        if CRASH_AFTER in pod.annotations:
            self._after(_seconds(pod.annotations[CRASH_AFTER]), pod, partial(self._end, code=1, reason="Error"))
            return
        if pod.is_machine and PANIC_AFTER in pod.annotations:
            self._after(_seconds(pod.annotations[PANIC_AFTER]), pod, partial(self._end, code=1, reason=GUEST_PANICKED))
            return
        if pod.doomed == 0 and pod.restarts == 0:
            luck = randomness.uniform(0, 1)
            if luck < behaviour.out_of_memory:
                delay = drawn(randomness, behaviour.lifetime)
                self._after(delay, pod, partial(self._end, code=_KILLED, reason="OOMKilled"))
                return
            luck -= behaviour.out_of_memory
            pod.doomed = (
                1 if luck < behaviour.fails else _LOOPS if luck < behaviour.fails + behaviour.crash_loops else 0
            )
        if pod.doomed:
            pod.doomed -= 1
            self._after(drawn(randomness, behaviour.lifetime), pod, partial(self._end, code=1, reason="Error"))

    def _end(self, pod: SimulatedPod, code: int, reason: str) -> None:
        self.happened["killed" if code == _KILLED else "crashed"] += 1
        if pod.end(code, reason, self._now()):
            self._after(self._backoff(pod.restarts), pod, self._restart)
        else:
            self.nodes[pod.node].release(pod)
        self._reports.queue.add(pod.uid)

    def _backoff(self, restarts: int) -> float:
        """As on a real node: the first restart comes at once, the second after ten seconds, then twice as long."""
        first, longest = self.behaviour.backoff
        return min(longest, first * 2.0 ** min(restarts - 1, 30)) if restarts else 0.0

    def _restart(self, pod: SimulatedPod) -> None:
        if not self.nodes[pod.node].attended:
            return
        pod.restarts += 1
        self._start(pod)

    def _stop(self, pod: SimulatedPod) -> None:
        if pod.stage not in (PodStage.STOPPING, PodStage.STOPPED):
            pod.stage = PodStage.STOPPING if pod.runs else PodStage.STOPPED
            self._after(drawn(self._randomness, self.behaviour.stop), pod, self._stopped)

    def _stopped(self, pod: SimulatedPod) -> None:
        self.happened["stopped"] += 1
        pod.stage = PodStage.STOPPED
        self.nodes[pod.node].release(pod)
        self._reports.queue.add(pod.uid)

    # What is told to the API.

    async def _report(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None or not self.nodes[pod.node].hears:
            return
        try:
            if pod.stage is PodStage.STOPPED:
                await self._resource.delete(pod.name, pod.namespace, grace=0, uid=pod.uid)
            elif pod.stage is not PodStage.STOPPING:
                status = pod.status(self.nodes[pod.node].address)
                await self._telling.patch(pod.name, status, pod.namespace, type="strategic", subresource="status")
        except (NotFound, Conflict):
            # Gone, or another of the same name. The watch tells in time; a conflict may also be a race, so look again.
            await self._check(pod)

    async def _check(self, pod: SimulatedPod) -> None:
        try:
            current = await self._resource.get(pod.name, pod.namespace)
        except NotFound:
            current = None
        if current is None or current["metadata"]["uid"] != pod.uid:
            self._vanished(pod)
        else:
            self._reports.queue.add_rate_limited(pod.uid)

    # Time.

    def _after(self, delay: float, pod: SimulatedPod, act: Callable[[SimulatedPod], None]) -> None:
        self._cancel(pod)
        self._timers[pod.uid] = asyncio.get_running_loop().call_later(delay, self._act, pod, act)

    def _act(self, pod: SimulatedPod, act: Callable[[SimulatedPod], None]) -> None:
        del self._timers[pod.uid]
        act(pod)

    def _cancel(self, pod: SimulatedPod) -> None:
        timer = self._timers.pop(pod.uid, None)
        if timer is not None:
            timer.cancel()

    def _now(self) -> str:
        return rfc3339(self._clock.now())


def _seconds(text: str) -> float:
    """The annotation's duration; one that cannot be read is a second."""
    try:
        return parse_duration(text)
    except ValueError:
        return 1.0
