"""All simulated nodes of a process: they react to pods bound to them as real nodes do, without running anything.

One watch over pods serves all nodes, and the event loop's timers move pods along, so an idle node costs nothing.
`SimulatedPod` holds a pod's true state; a work queue reports statuses to the API, one worker per pod at a time and with
back-off.

A node may be *dead* (its pods are lost), *cut off* (its pods run on; it receives and reports nothing) or *without an
agent* (its pods run on; none is started or stopped). In each case it misses changes: back again, it lists its pods.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from tarmac.agent.containers.imagepulls import BACKOFF_STATUS_DELAY
from tarmac.agent.model.allotment import Refusal
from tarmac.agent.status.statusinputs import TOO_LONG
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.base.clock import rfc3339
from tarmac.base.cooperative import CooperativeWork
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.controller import Controller
from tarmac.client.eventrecorder import Recorder
from tarmac.client.reflector import Reflector
from tarmac.client.targets.target import encode
from tarmac.client.targets.untyped import PODS
from tarmac.client.watch import Change
from tarmac.decide.reasons import GUEST_PANICKED
from tarmac.sim.nodes.deadlines import Deadlines
from tarmac.sim.nodes.failingprobes import FailingProbe
from tarmac.sim.nodes.heartbeat import Keeper
from tarmac.sim.nodes.model import NodeModel
from tarmac.sim.nodes.nodeegress import SimRelays
from tarmac.sim.nodes.pod import PodStage, SimulatedPod
from tarmac.sim.nodes.podevents import PodEvents
from tarmac.sim.nodes.podview import SimPod, loops, view_of
from tarmac.sim.nodes.prerequisites import Needs, Unready, refers
from tarmac.sim.nodes.resizing import resize
from tarmac.sim.nodes.settings import (
    BOOT,
    ENDINGS,
    PANIC_AFTER,
    Behaviour,
    HeartbeatSettings,
    NodeShape,
    SimLocation,
    drawn,
    duration_of,
    ending_of,
)
from tarmac.sim.nodes.simulateddisks import SimDisks
from tarmac.sim.nodes.simulatednode import SimulatedNode

REPORTERS = 32
RETRY_SECONDS = 5.0  # retry interval for missing objects that a pod refers to
SANDBOX_CHANGED = "Pod sandbox changed, it will be killed and re-created."
_KILLED = 137
_LOOPS = 4  # number of crashes of a pod in a temporary crash loop
_decode = msgspec.json.Decoder(JsonObject).decode


class SimulatedNodes:
    """The nodes. `run` starts them; `die`, `revive`, `cut` and `heal` inject faults."""

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
        events: bool = True,
    ) -> None:
        self.places = tuple(places)
        self.behaviour = behaviour or Behaviour()
        self.happened: Counter[str] = Counter()  # started, crashed, killed, completed, stopped, unpullable
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
        self._postponed: set[str] = set()  # uids of pods that wait for the resources they request
        self._deadlines = Deadlines(client.clock, self._expire)
        self._resource = client.resource(PODS)
        self._telling = client.resource(PODS.unread)
        self._reports = Controller(
            "simulated-pods", self._report, clock=client.clock, randomness=client.randomness, workers=REPORTERS
        )
        # One for all nodes: its buffer bounds the requests when thousands of pods start at once.
        self._recorder = Recorder(client, "kubelet") if events else None
        self._events = PodEvents(self._recorder)
        self._needs = Needs(client)
        self._checks = Controller(
            "simulated-needs", self._check_needs, clock=client.clock, randomness=client.randomness, workers=REPORTERS
        )
        self._external = external
        self.relays = SimRelays(client, self.nodes)
        beat = heartbeat or HeartbeatSettings.for_fleet(len(self.nodes))
        self._keeper = Keeper(client, self.nodes, beat, self._recorder, returned=self._returned, strike=self._strike)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run())
            group.create_task(Reflector(self._client, PODS, self).run())
            group.create_task(self._reports.run())
            group.create_task(self._needs.run())
            group.create_task(self._checks.run())
            if self._recorder is not None:
                group.create_task(self._recorder.run())
            group.create_task(SimDisks(self._client, self.nodes).run())
            if self._external:
                group.create_task(self.relays.run())

    async def registered(self) -> None:
        """Wait until every node is registered with the API."""
        await self._keeper.registered.wait()

    def pods(self) -> Iterator[SimulatedPod]:
        """Return every pod that a node has, with its true state."""
        return iter(tuple(self._pods.values()))

    def find(self, uid: str) -> SimulatedPod | None:
        """Return the pod with this uid, or None."""
        return self._pods.get(uid)

    def reboot(self, pod: SimulatedPod) -> None:
        """Boot a running virtual machine again."""
        self._run(pod)
        self._reports.queue.add(pod.uid)

    # Faults.

    def die(self, name: str) -> None:
        """Cut the power of the node: nothing on it runs any more."""
        node = self.nodes[name]
        node.alive = False
        self.relays.lose_power(name)
        for pod in node.pods():
            self._forget(pod)

    def revive(self, name: str) -> None:
        """Boot the node; pods still bound to it start again."""
        self.nodes[name].alive = self.nodes[name].attended = True
        self._keeper.look_at(name)

    def cut(self, name: str) -> None:
        """Disconnect the node; its pods run on."""
        self.nodes[name].reachable = False

    def heal(self, name: str) -> None:
        """Connect the node again."""
        self.nodes[name].reachable = True
        self._keeper.look_at(name)

    def end_agent(self, name: str) -> None:
        """Stop the node's agent; its pods run on."""
        self.nodes[name].attended = False

    def start_agent(self, name: str) -> None:
        """Start a new agent on the node: it adopts running pods and starts the rest again."""
        node = self.nodes[name]
        node.attended = True
        self.relays.agent_started(name)
        for pod in node.pods():
            if pod.runs:
                self._adopt(pod)
            elif pod.stage in (PodStage.WAITING, PodStage.UNCONFIGURED, PodStage.UNPULLABLE, PodStage.BACKOFF):
                again = self._restart if pod.stage is PodStage.BACKOFF else self._start
                self._after(drawn(self._randomness, self.behaviour.start), pod, again)
        self._keeper.look_at(name)

    def _adopt(self, pod: SimulatedPod) -> None:
        """Report a running pod: its processes do not belong to the agent and continue."""
        self._reports.queue.add(pod.uid)

    def _strike(self, node: SimulatedNode, fault: str) -> None:
        """Apply the fault that a node's annotation names."""
        if fault == "dead":
            self.die(node.name)
        elif fault == "cut":
            self.cut(node.name)
        else:
            self.revive(node.name)
            self.heal(node.name)

    def calm(self) -> None:
        """Disable random failures; crashes requested by annotations continue."""
        self.behaviour = replace(self.behaviour, fails=0.0, crash_loops=0.0, out_of_memory=0.0)
        for pod in self._pods.values():
            pod.doomed = 0
            if pod.stage is PodStage.RUNNING and pod.annotations.keys().isdisjoint(ENDINGS) and not pod.failing:
                self._cancel(pod)

    # The shared watch.

    def replaced(self, state: Sequence[Change]) -> CooperativeWork[None]:
        """Apply a full list; pods missing from it are stopped."""
        present = {change.metadata.uid for change in state}
        for pod in [pod for uid, pod in self._pods.items() if uid not in present]:
            self._vanished(pod)
            yield
        for change in state:
            self.changed(change)
            yield

    def changed(self, change: Change) -> None:
        """Apply one change of a pod."""
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
            self._read(pod, view, raw)
        if view.metadata.deletion_timestamp and pod is not None:
            self._stop(pod)

    def _read(self, pod: SimulatedPod, view: SimPod, raw: bytes | msgspec.Raw) -> None:
        """Apply a change to a known pod. For a pod being deleted, only its end is still reported."""
        limit, before = pod.deadline, (pod.addresses, pod.gated, pod.failing)
        asked, images = pod.asked, pod.containers
        pod.read(view)
        if limit != pod.deadline:
            self._deadlines.keep(pod)
        going = bool(view.metadata.deletion_timestamp)
        if not going:
            self._follow_spec(pod, asked, images, raw)
        if before[1] != pod.gated:
            pod.gated_since = self._now()
        if before[2] != pod.failing and pod.stage is PodStage.RUNNING:
            pod.changed = self._now()
            self._cancel(pod)
            self._plan_end(pod)
        fresh = view.status.observed_generation != pod.generation
        fresh = fresh or before != (pod.addresses, pod.gated, pod.failing)
        if (fresh and pod.stage is not PodStage.WAITING and not going) or view.status.ready is not pod.ready:
            # changed, or the node controller marked the pods not ready because it considered the node dead
            self._reports.queue.add(pod.uid)

    def _follow_spec(
        self, pod: SimulatedPod, asked: bytes, images: tuple[tuple[str, str], ...], raw: bytes | msgspec.Raw
    ) -> None:
        """Apply changed resources and images of a known pod."""
        if pod.asked != asked:
            self._resize(pod, raw)
        if pod.containers != images and pod.stage is PodStage.UNPULLABLE:
            self._after(0.0, pod, self._start)
        elif pod.containers != images and pod.runs:
            changed = [name for name, image in pod.containers if (name, image) not in images]
            self._replace(pod, changed, "Container {} definition changed, will be restarted")

    def _resize(self, pod: SimulatedPod, raw: bytes | msgspec.Raw | None = None) -> None:
        """Give a pod the resources it requests now, or record why it has to wait."""
        node = self.nodes[pod.node]
        if raw is not None and pod.whole is not None:
            pod.whole = _decode(raw)
        restarting = resize(node, pod, self._needs.handler(pod), self._now())
        (self._postponed.discard if pod.postponed is None else self._postponed.add)(pod.uid)
        if restarting:
            self._replace(pod, restarting, "Container {} resize requires restart, will be restarted")
        self._reports.queue.add(pod.uid)

    def _replace(self, pod: SimulatedPod, containers: Sequence[str], why: str) -> None:
        """Kill and start containers with a changed definition again, without back-off."""
        self._events.killing(pod, why, containers)
        self._cancel(pod)
        if pod.stage is PodStage.STOPPING:
            return
        pod.replace(self._now())
        self._begin(pod)

    def _room(self, node: SimulatedNode) -> None:
        """Retry postponed resizes of a node after resources became free."""
        for uid in tuple(self._postponed) if node.hears else ():
            if uid not in self._pods:
                self._postponed.discard(uid)
            elif self._pods[uid].node == node.name:
                self._resize(self._pods[uid])

    def _take(self, node: SimulatedNode, view: SimPod, raw: bytes | msgspec.Raw) -> SimulatedPod | None:
        """Take a pod that is new to this node: just bound, or known before the node went away."""
        pod = SimulatedPod(view, self._now())
        pod.whole = _decode(raw) if node.judges else None
        if view.status.phase in TERMINAL:
            if not view.metadata.deletion_timestamp:
                return None
            pod.stage = PodStage.ENDED
        self._pods[pod.uid] = pod
        node.add(pod)
        if view.status.phase != "Running":
            self._after(drawn(self._randomness, self.behaviour.start), pod, self._start)
            return pod
        if node.booted:
            pod.restarts += 1
            pod.lose(self._now())
            self._events.of_pod(pod, "Normal", "SandboxChanged", SANDBOX_CHANGED)
            self._events.started(pod)
        node.adopt(pod)
        if loops(view) and not node.booted:
            pod.stage = PodStage.BACKOFF
            self._after(self._backoff(pod.crashes), pod, self._restart)
            return pod
        # After a power loss a machine boots again; otherwise a ready machine stays ready under a new agent.
        self._run(pod, ready=view.status.ready and not node.booted)
        if node.booted or not view.status.ready:
            self._reports.queue.add(pod.uid)
        return pod

    def _vanished(self, pod: SimulatedPod) -> None:
        """Kill a pod whose object was deleted."""
        if self.nodes[pod.node].hears:
            self._forget(pod)

    def _forget(self, pod: SimulatedPod) -> None:
        self._cancel(pod)
        self._deadlines.forget(pod)
        self._pods.pop(pod.uid, None)
        self.nodes[pod.node].remove(pod)
        self._room(self.nodes[pod.node])

    async def _returned(self, node: SimulatedNode) -> None:
        """Bring a returning node up to date: stop pods deleted meanwhile, and report the rest again."""
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

    # Pod lifecycle.

    def _start(self, pod: SimulatedPod) -> None:
        """Start a pod as an agent does: admission, then the objects it refers to, then its images."""
        if not self.nodes[pod.node].attended:
            return  # the next agent starts it
        try:
            refused = self._needs.refusal(pod) or self._judged(pod)
        except Unready as unready:
            self._wait_for_needs(pod, unready)
            return
        if refused is not None:
            reason, message = refused
            pod.give_up(reason, f"Pod was rejected: {message}", self._now())
            self._events.of_pod(pod, "Warning", reason, message)
            self.happened["refused"] += 1
            self._reports.queue.add(pod.uid)
        elif pod.refers:
            self._checks.queue.add(pod.uid)
        else:
            self._begin(pod)

    def _judged(self, pod: SimulatedPod) -> Refusal | None:
        """Ask the node's gate. Raises Unready while the node does not know yet which of its pods still exist."""
        node = self.nodes[pod.node]
        if node.judges and node.behind:  # pods deleted meanwhile still count
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
            return  # the watch will report it
        except Unready as unready:
            if self._may_begin(pod):
                self._wait_for_needs(pod, unready)
            return
        if self._may_begin(pod):
            self._begin(pod)

    def _may_begin(self, pod: SimulatedPod) -> bool:
        """Return True if the pod is still to be started: during the check it may have been deleted or have failed."""
        return self._pods.get(pod.uid) is pod and pod.stage in (
            PodStage.WAITING,
            PodStage.UNCONFIGURED,
            PodStage.UNPULLABLE,
            PodStage.BACKOFF,
        )

    def _wait_for_needs(self, pod: SimulatedPod, unready: Unready) -> None:
        if pod.lack(unready.containers):
            self._events.unconfigured(pod)
            self._reports.queue.add(pod.uid)
        self._after(RETRY_SECONDS, pod, self._start)

    def _expire(self, pod: SimulatedPod) -> None:
        if pod.stage in (PodStage.ENDED, PodStage.STOPPING, PodStage.STOPPED):
            return
        self._cancel(pod)
        self._release(pod)
        self._events.of_pod(pod, "Normal", TOO_LONG.reason, TOO_LONG.message)
        if pod.runs:
            self._events.killing(pod)
        pod.give_up(TOO_LONG.reason, TOO_LONG.message, self._now())
        self._reports.queue.add(pod.uid)

    def _begin(self, pod: SimulatedPod) -> None:
        faults = pod.pull_faults()
        if faults:
            self.happened["unpullable"] += 1
            pod.cannot_pull(faults)
            self._events.unpullable(pod)
            self._after(BACKOFF_STATUS_DELAY, pod, self._wait_for_image)
        else:
            self.happened["started"] += 1
            pod.pulls = 0
            self._events.started(pod)
            self._run(pod)
        self._reports.queue.add(pod.uid)

    def _wait_for_image(self, pod: SimulatedPod) -> None:
        """Schedule the next pull with exponential back-off."""
        first, longest = self.behaviour.backoff
        self._after(min(longest, first * 2.0 ** min(pod.pulls - 1, 30)), pod, self._start)
        self._events.pull_backs_off(pod)
        if pod.pulls == 1:
            pod.pulls += 1
            self._reports.queue.add(pod.uid)

    def _run(self, pod: SimulatedPod, *, ready: bool = False) -> None:
        """Start or continue its containers; a virtual machine that is not ready boots first."""
        if ready or not pod.is_machine:
            pod.begin(self._now())
            self._plan_end(pod)
            return
        pod.boot(self._now())
        stated = pod.annotations.get(BOOT)
        self._after(self.behaviour.boot if stated is None else duration_of(stated), pod, self._booted)

    def _booted(self, pod: SimulatedPod) -> None:
        pod.booted(self._now())
        self._plan_end(pod)
        self._reports.queue.add(pod.uid)

    def _plan_end(self, pod: SimulatedPod) -> None:
        """Schedule the failure of this start, if it is to fail."""
        behaviour, randomness = self.behaviour, self._randomness
        if (asked := ending_of(pod.annotations, pod.restarts)) is not None:
            self._after(asked.delay, pod, partial(self._end, code=asked.code, reason=asked.reason))
            return
        if pod.failing:
            first = min(pod.failing, key=lambda each: (not each.ends, each.delay + each.period * each.threshold))
            self._after(first.delay or first.period, pod, partial(self._fail, probe=first, before=0))
            return
        if pod.is_machine and PANIC_AFTER in pod.annotations:
            panic = partial(self._end, code=1, reason=GUEST_PANICKED)
            self._after(duration_of(pod.annotations[PANIC_AFTER]), pod, panic)
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

    def _fail(self, pod: SimulatedPod, probe: FailingProbe, before: int) -> None:
        """Record one more probe failure; at the threshold, a liveness or startup probe restarts its container."""
        self._events.unhealthy(pod, probe)
        if not probe.ends or before + 1 < probe.threshold:
            self._after(probe.period, pod, partial(self._fail, probe=probe, before=before + 1))
            return
        self._events.killing(pod, f"Container {{}} failed {probe.kind} probe, will be restarted", [probe.container])
        self._end(pod, _KILLED, "Error")

    def _end(self, pod: SimulatedPod, code: int, reason: str) -> None:
        self.happened["completed" if code == 0 else "killed" if code == _KILLED else "crashed"] += 1
        if pod.end(code, reason, self._now()):
            if pod.crashes:
                self._events.backs_off(pod)
            self._after(self._backoff(pod.crashes), pod, self._restart)
        else:
            self._release(pod)
        self._reports.queue.add(pod.uid)

    def _release(self, pod: SimulatedPod) -> None:
        self.nodes[pod.node].release(pod)
        self._room(self.nodes[pod.node])

    def _backoff(self, restarts: int) -> float:
        """Return the delay as on a real node: none for the first restart, then ten seconds, then doubling."""
        first, longest = self.behaviour.backoff
        return min(longest, first * 2.0 ** min(restarts - 1, 30)) if restarts else 0.0

    def _restart(self, pod: SimulatedPod) -> None:
        if not self.nodes[pod.node].attended:
            return
        pod.restarts += 1
        pod.crashes += 1
        self._start(pod)

    def _stop(self, pod: SimulatedPod) -> None:
        if pod.stage not in (PodStage.STOPPING, PodStage.STOPPED):
            if pod.runs:
                self._events.killing(pod)
            pod.stage = PodStage.STOPPING if pod.runs else PodStage.STOPPED
            self._after(drawn(self._randomness, self.behaviour.stop), pod, self._stopped)

    def _stopped(self, pod: SimulatedPod) -> None:
        self.happened["stopped"] += 1
        pod.stage = PodStage.STOPPED
        self._release(pod)
        self._reports.queue.add(pod.uid)

    # Reports to the API.

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
            # Deleted, or a new pod with the same name. The watch will report it; a conflict may also be a race, so
            # check.
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

    # Timers.

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
