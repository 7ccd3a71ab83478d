"""The pods of one node: who they are, their workers, and what others may ask about them.

`PodManager` hears of pods from the API (`spec.nodeName` is this node), from manifests in a folder, and, while the
server is away, from the definitions it kept on disk. Each pod has one worker; events of the runtime and of probes only
wake it. What the runtime holds for no known pod is an orphan and is taken away, once the API has been heard.

A pod passes through here so: heard of, admitted or refused, worked on, over, vanished from the API, buried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.allocation.promises import Resizes
from tarmac.agent.containers.configs import ContainerConfigs
from tarmac.agent.containers.hooks import Hooks
from tarmac.agent.containers.images import Images
from tarmac.agent.containers.paths import PodPaths
from tarmac.agent.containers.repositories import RepositoryAccess
from tarmac.agent.model.allotment import Postponed, Refusal
from tarmac.agent.model.classes import PodClasses, Unclassed
from tarmac.agent.model.interfaces import Connector, Handlers, PodCgroups
from tarmac.agent.model.pod import CONFIG_MIRROR, Pod
from tarmac.agent.model.settings import PodSettings
from tarmac.agent.model.waits import within
from tarmac.agent.pods.checkpoints import PodCheckpoints
from tarmac.agent.pods.cleanup import PodCleanup
from tarmac.agent.pods.dependencies import PodDependencies
from tarmac.agent.pods.podadmission import PodAdmission
from tarmac.agent.pods.restoration import Restoration
from tarmac.agent.pods.termination import LEAST_GRACE
from tarmac.agent.pods.worker import Ending, PodWorker
from tarmac.agent.probes.checks import Checks
from tarmac.agent.static.manifests import Manifests
from tarmac.agent.static.mirrors import Mirrors
from tarmac.agent.status.facts import PodTermination
from tarmac.agent.status.podstatus import rejected_status
from tarmac.agent.status.writer import StatusWriter
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.restored import RunningReport
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.log import log
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.events import Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import PODS, RUNTIME_CLASSES, SERVICES
from tarmac.runtimes.interface import Container, Runtime, RuntimeFault
from tarmac.volumes.interface import Sources, VolumeError, Volumes

_SAY_EVERY = 60.0  # while there is no runtime
SETTLE_SECONDS = 2.0
"""After a restore, how often a node tells what runs."""
PATIENCE = 5.0
"""How long a new agent waits for a server that does not answer before it goes on without."""
LAST_WORDS = 5.0
"""How long a node that shuts down waits for the server to take the last statuses."""

_log = log("pods")


def no_notes(_uid: str) -> Mapping[str, str]:
    """Nothing to annotate a pod with."""
    return {}


class PodManager:
    """Runs the pods of this node. `node` gives the Node object as last reported, `informers` must be running.

    `notes` are annotations that a pod gets with its status.
    """

    def __init__(
        self,
        *,
        client: Client,
        informers: Informers,
        runtime: Runtime,
        volumes: Volumes,
        sources: Sources,
        cgroups: PodCgroups,
        allocator: Allocator,
        classes: PodClasses | None = None,
        connect: Connector,
        node: Callable[[], JsonObject],
        handlers: Handlers,
        recorder: Recorder,
        settings: PodSettings,
        notes: Callable[[str], Mapping[str, str]] = no_notes,
    ) -> None:
        clock = client.clock
        paths = PodPaths(settings.root_dir, settings.log_dir)
        self.writer = StatusWriter(client)
        self._settings = settings
        self._notes = notes
        self._clock = clock
        self._recorder = recorder
        self._runtime_name = "containerd"
        self._pods = informers.informer(PODS, fields=f"spec.nodeName={settings.node_name}")
        self._restoration = Restoration(
            client, settings.node_name, settings.root_dir / "restored", self._runs_something
        )
        self._pods.guard_lists(self._restoration.around_listing)
        self._services = informers.informer(SERVICES)
        self._classes = informers.informer(RUNTIME_CLASSES)
        self._admission = PodAdmission(settings, node, handlers, self._classes, allocator, self._others)
        self._kept = PodCheckpoints(paths, clock)
        self._tools = PodDependencies(
            runtime=runtime,
            volumes=volumes,
            cgroups=cgroups,
            allocator=allocator,
            classes=classes or Unclassed(runtime),
            images=Images(runtime, RepositoryAccess(client, sources), recorder, clock, settings.parallel_pulls),
            configs=ContainerConfigs(settings, paths, volumes, sources),
            hooks=Hooks(runtime, connect, clock),
            checks=Checks(runtime, connect),
            recorder=recorder,
            clock=clock,
            randomness=client.randomness,
            settings=settings,
            paths=paths,
            kept=self._kept,
            node=node,
            services=lambda: [item.object for item in self._services.cache.items()],
            runtime_name=lambda: self._runtime_name,
            handler=self._admission.handler,
        )
        self._undertaker = PodCleanup(self._tools, self._kept.forget)
        self._mirrors = Mirrors(client, node)
        self._manifests = Manifests(settings.manifest_dir, settings.node_name, clock, settings.manifest_interval)
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._vanished: set[str] = set()
        self._unknown: set[str] = set()  # run, and a restored store does not have them so
        self._held: dict[str, Pod] = {}  # by uid; not begun while they may run elsewhere
        self._static: dict[str, Pod] = {}
        self._in_runtime: set[str] = set()
        self._told_of_status: list[Callable[[JsonObject, JsonObject], None]] = []
        self._ready = asyncio.Event()
        self._progress = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None

    # --- what others ask --------------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Wait until the runtime's pods are known (from it or from disk): before, absence means nothing."""
        await self._ready.wait()

    def add_admission(self, admit: Callable[[JsonObject], Refusal | None]) -> None:
        """Ask one more question of every new pod; a refusal makes it Failed with this reason and message."""
        self._admission.admit_checks.append(admit)

    def on_status(self, tell: Callable[[JsonObject, JsonObject], None]) -> None:
        """Tell of every status that is reported: the pod, and the status."""
        self._told_of_status.append(tell)

    def add_resize_check(self, postponed: Callable[[Pod, Pod], Postponed | None]) -> None:
        """Ask one more question of every pod that has been promised something and asks for something else."""
        self._admission.resize_checks.append(postponed)

    def handler(self, pod: JsonObject) -> str:
        """The runtime handler of a pod's RuntimeClass. Raises ConfigMissing."""
        return self._admission.handler(Pod(pod))

    def pods(self) -> Sequence[JsonObject]:
        """Every pod bound here, with its status as of now; static pods as themselves, not as mirrors."""
        return [_shown(worker) for worker in self._workers.values()]

    def allocated(self) -> Sequence[JsonObject]:
        """The same, with the resources that each pod has been promised, whatever it asks for by now."""
        return [_shown(worker, worker.allocation.effective(worker.pod)) for worker in self._workers.values()]

    def beside(self, uid: str) -> Sequence[Pod]:
        """The pods that take room here, with what they have been promised, but for one."""
        return self._others(uid)

    def find(self, namespace: str, name: str, uid: str | None = None) -> JsonObject | None:
        """One pod with its status as of now."""
        worker = next(
            (
                each
                for each in self._workers.values()
                if (each.pod.namespace, each.pod.name) == (namespace, name) and uid in (None, "", each.pod.uid)
            ),
            None,
        )
        return None if worker is None else _shown(worker)

    def container_id(self, pod: JsonObject, container: str, previous: bool = False) -> str | None:
        """The runtime's id of a container, or of the one before it. None: there is none yet."""
        found = self._containers(pod, container)
        index = 1 if previous else 0
        return found[index].id if len(found) > index else None

    def sandbox_id(self, pod: JsonObject) -> str | None:
        """The runtime's id of the pod's sandbox, if it has one that is ready."""
        worker = self._workers.get(pod["metadata"]["uid"])
        ready = [each.id for each in worker.seen.sandboxes if each.ready] if worker else []
        return ready[0] if ready else None

    def log_path(self, pod: JsonObject, container: str, previous: bool = False) -> Path | None:
        """Where a container's log is, or that of the one before it."""
        found = self._containers(pod, container)
        index = 1 if previous else 0
        if len(found) <= index:
            return None
        return self._tools.paths.container_log(Pod(pod), container, found[index].attempt)

    def evict(self, pod: JsonObject, reason: str, message: str, grace: float | None = None) -> None:
        """End a pod for the node's sake: it becomes Failed with this reason. The object stays for its controller."""
        worker = self._workers.get(pod["metadata"]["uid"])
        if worker is not None and not worker.ending:
            self._recorder.event(worker.pod.reference, "Warning", reason, message)
            worker.end(Ending(grace, _disrupted(reason, message)))

    async def drain(self, grace: float, critical_grace: float = 0.0) -> None:
        """Graceful shutdown of the node: end ordinary pods within `grace`, then critical ones; refuse new ones."""
        self._admission.shutting_down = True
        message = "Pod was terminated in response to imminent node shutdown."
        for critical, seconds in ((False, grace), (True, critical_grace)):
            going = [each for each in self._workers.values() if each.pod.critical is critical and not each.over]
            for worker in going:
                worker.end(Ending(min(seconds, worker.pod.grace), _disrupted("Terminated", message)))
            if going:
                await within(self._clock, max(seconds, LEAST_GRACE + 1), self._all_over(going))
        await within(self._clock, LAST_WORDS, self.writer.settled())

    def wake(self, uid: str | None = None) -> None:
        """Something a pod refers to has changed, or may have for all of them: look again, and try again at once."""
        for worker in self._workers.values() if uid is None else self._known(uid):
            worker.try_again()

    async def check_classes(self) -> None:
        """Look whether pods are in their classes, and put right what is not."""
        for worker in list(self._workers.values()):
            try:
                await worker.check_classes()
            except RuntimeFault as error:
                _log.info("classes not looked at", pod=worker.pod.key, error=str(error))

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep pods as they should be until cancelled; running containers are left alone then."""
        await self._tools.volumes.start()
        await self._meet_runtime()
        # Containers are told where Services are, sandboxes need their class, and new pods are judged beside those that
        # the API still has: worth a moment, but not worth being down.
        await within(self._clock, PATIENCE, self._lookups())
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._adopt()
                self._ready.set()
                self._pods.on_change(self._changed)
                for part in (
                    self._listen,
                    self._sweep_often,
                    self._refresh_often,
                    self._read_manifests,
                    self._settle_restores,
                    self._kept.run,
                ):
                    group.create_task(part())
        finally:
            self._group = None
            await self._mirrors.close()
            await self._undertaker.close()
            await self._tools.images.close()
            await self.writer.close()

    async def _meet_runtime(self) -> None:
        """Know what it is and whose sandboxes it has."""
        said = -_SAY_EVERY
        while True:
            try:
                self._runtime_name = (await self._tools.runtime.status()).name
                self._in_runtime = {each.pod.uid for each in await self._tools.runtime.sandboxes()}
                return
            except RuntimeFault as error:
                if self._clock.monotonic() - said >= _SAY_EVERY:
                    _log.warning("no container runtime answers, so no pod can run; is containerd up?", error=str(error))
                    said = self._clock.monotonic()
                await self._clock.sleep(1)

    async def _lookups(self) -> None:
        await self._services.synced()
        await self._classes.synced()
        await self._pods.synced()

    def _adopt(self) -> None:
        """Go on with the pods that were here before: from disk, until the API is heard."""
        for pod, promised in self._kept.read():
            if pod.uid in self._in_runtime:
                self._begin(pod, promised)

    async def _listen(self) -> None:
        async for event in self._tools.runtime.events():
            for worker in self._workers.values() if event is None else self._known(event.pod_uid):
                worker.stir(event)

    def _runs_something(self) -> bool:
        """By what is kept on disk: the API may be heard before the runtime is."""
        return any((self._tools.paths.root / "pods").glob("*/pod.json"))

    def _known(self, uid: str) -> list[PodWorker]:
        return [self._workers[uid]] if uid in self._workers else []

    async def _sweep_often(self) -> None:
        """Once the API has been heard, what nobody asked for goes; and again now and then, to be sure."""
        await self._pods.synced()
        await self._manifests.read_once()
        while True:
            try:
                await self._sweep()
            except (RuntimeFault, VolumeError, OSError) as error:
                _log.info("orphans not looked for", error=str(error))
            await self._clock.sleep(self._settings.relist)
            for worker in self._workers.values():
                worker.wake()

    async def _sweep(self) -> None:
        for uid, worker in list(self._workers.items()):
            if not worker.pod.static and uid not in self._vanished and not self._is_wanted(worker.pod):
                self._vanish_unless_restored(uid)
        if self._restoration.active:  # what nobody can name may be somebody's as well
            return
        uids = {each.pod.uid for each in await self._tools.runtime.sandboxes()}
        uids |= {each.name for each in (self._tools.paths.root / "pods").glob("*") if each.is_dir()}
        uids |= self._tools.allocator.holders()  # of an agent that was killed before it made anything else
        for uid in uids - self._workers.keys() - self._undertaker.busy:
            _log.info("orphaned pod is taken away", uid=uid)
            self._undertaker.bury(uid)
        await self._tools.volumes.sweep(self._workers.keys() | self._undertaker.busy)

    def _is_wanted(self, pod: Pod) -> bool:
        """Whether the API has this very pod: another of its name may have taken its place while nobody listened."""
        found = self._pods.cache.item(pod.key)
        return found is not None and found.metadata.uid == pod.uid

    async def _refresh_often(self) -> None:
        """Files projected from objects follow them; tokens are renewed in time."""
        while True:
            await self._clock.sleep(self._settings.volume_refresh)
            for worker in self._workers.values():
                if worker.seen.running and worker.pod.spec.get("volumes"):
                    worker.try_again()

    async def _read_manifests(self) -> None:
        """Static pods come and go with their files; their mirrors follow."""
        async for pods in self._manifests.changes():
            self._static = {pod.uid: pod for pod in pods}
            self._follow_manifests()

    def _follow_manifests(self) -> None:
        """A pod whose manifest changed is another pod, and starts when the one before it is gone."""
        for uid, worker in list(self._workers.items()):
            if worker.pod.static and uid not in self._static:
                self._vanish(uid)
        names = {worker.pod.key for worker in self._workers.values() if worker.pod.static}
        for pod in self._static.values():
            if pod.key not in names:
                self._welcome(pod)

    # --- after a restore --------------------------------------------------------------------------------------------

    async def _settle_restores(self) -> None:
        """Tell what runs, whenever the server's store was restored, until nothing is left to decide."""
        while True:
            await self._restoration.began.wait()
            await self._pods.synced()
            try:
                await self._settle_restore()
            except (ApiError, ClientError, OSError, ValueError) as error:
                _log.info("what runs is not told yet", error=str(error))
            await self._clock.sleep(SETTLE_SECONDS)

    async def _settle_restore(self) -> None:
        for uid in self._unknown & self._workers.keys():
            if self._workers[uid].over:
                self._vanish(uid)
            elif self._is_wanted(self._workers[uid].pod):
                self._unknown.discard(uid)
        running = [_shown(each) for each in self._workers.values() if not each.pod.static and not each.over]
        waiting = {pod.key: uid for uid, pod in self._held.items()}
        answer = await self._restoration.tell(RunningReport("", running, list(waiting)))
        for uid in self._unknown & set(answer.remove):
            self._unknown.discard(uid)
            self._vanish(uid)
        if not answer.settled:
            return
        # By name: a pod of this node that runs under another uid stands against it as one elsewhere does.
        taken = {*answer.held, *(self._workers[uid].pod.key for uid in self._unknown & self._workers.keys())}
        for uid in [uid for key, uid in waiting.items() if key not in taken]:
            if (pod := self._held.pop(uid, None)) is not None:
                self._welcome(pod)
        if not self._unknown and not self._held:
            self._restoration.answered()

    # --- pods come and go -------------------------------------------------------------------------------------------

    def _changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        """The API's view of a pod changed."""
        if new is None:
            if old is not None:
                self._lost(Pod(old.object))
            return
        pod = Pod(new.object)
        self.writer.heard(pod)
        if CONFIG_MIRROR in pod.annotations:
            for worker in self._known(self._mirrors.heard(pod)):
                worker.wake()
            return
        worker = self._workers.get(pod.uid)
        if worker is not None:
            self._unknown.discard(pod.uid)  # somebody has decided for it
            worker.update(pod)
            self._keep(worker)
        elif self._restoration.active and pod.uid not in self._in_runtime and not pod.deleted:
            self._held[pod.uid] = pod
        else:
            self._welcome(pod)

    def _welcome(self, pod: Pod) -> None:
        """A pod that is new here."""
        known = pod.uid in self._in_runtime or pod.deleted or pod.finished
        why = None if known else self._admission.refusal(pod)
        if why is None:
            self._begin(pod)
            return
        reason, message = why
        _log.info("pod refused", pod=pod.key, reason=reason)
        self._recorder.event(pod.reference, "Warning", reason, message)
        self._begin(pod, refused=rejected_status(pod, reason, message, self._clock.now()))

    def _begin(self, pod: Pod, promised: Resizes | None = None, refused: JsonObject | None = None) -> None:
        uid = pod.uid

        def report(status: JsonObject, over: bool) -> None:
            self._report(uid, status, over)

        worker = PodWorker(
            self._tools,
            pod,
            report,
            self._admission.postponement,
            promised=promised,
            refused=refused,
            fresh=uid not in self._in_runtime,
        )
        self._workers[uid] = worker
        self._keep(worker)
        assert self._group is not None, "workers belong to `run`"
        self._tasks[uid] = self._group.create_task(worker.run(), name=f"pod {pod.key}")

    def _report(self, uid: str, status: JsonObject, over: bool) -> None:
        worker = self._workers[uid]
        self._keep(worker)
        for tell in self._told_of_status:
            tell(worker.pod.raw, status)
        if uid in self._unknown:  # the API has no such pod, or another one of that name
            pass
        elif not worker.pod.static:
            self.writer.submit(uid, status, self._notes(uid), delete=over and worker.pod.deleted)
        elif uid not in self._vanished and (mirror := self._mirrors.of(worker.pod)) is not None:
            self.writer.submit(mirror, status, self._notes(uid))
        if over:
            self._progress.set()
            if uid in self._vanished:
                self._forget(uid)

    def _lost(self, pod: Pod) -> None:
        """The API no longer has a pod; its last state says how much time it was given."""
        self._mirrors.gone(pod)
        self.writer.forget(pod.uid)
        self._held.pop(pod.uid, None)
        if pod.deleted and pod.uid in self._workers:
            self._workers[pod.uid].update(pod)
        if self._restoration.listing and not pod.deleted:
            self._vanish_unless_restored(pod.uid)
        else:
            self._vanish(pod.uid)

    def _vanish_unless_restored(self, uid: str) -> None:
        """The API lacks a pod: nobody wants it, or the server has forgotten it."""
        if not self._restoration.active:
            self._vanish(uid)
        elif uid in self._workers:
            self._unknown.add(uid)

    def _vanish(self, uid: str) -> None:
        """Nobody wants the pod any more: it ends, and then goes without a trace."""
        worker = self._workers.get(uid)
        if worker is None:
            return
        self._vanished.add(uid)
        if worker.over:
            self._forget(uid)
        elif not worker.pod.deleted:
            worker.end(Ending())
        else:
            worker.wake()

    def _forget(self, uid: str) -> None:
        worker = self._workers.pop(uid)
        self._unknown.discard(uid)
        self.writer.forget(uid)
        self._tasks.pop(uid).cancel()
        self._vanished.discard(uid)
        self._in_runtime.discard(uid)
        self._undertaker.bury(uid, released=worker.released)
        if worker.pod.static:
            self._mirrors.drop(worker.pod)
            self._follow_manifests()

    def _keep(self, worker: PodWorker) -> None:
        """Remember a pod beyond the life of this process."""
        if not worker.over:
            self._kept.keep(worker.pod, worker.status, worker.allocation.promised)

    # --- looking up -------------------------------------------------------------------------------------------------

    def _others(self, uid: str) -> list[Pod]:
        """The pods here that take room, but for one."""
        return [
            worker.allocation.effective(worker.pod)
            for each, worker in self._workers.items()
            if each != uid
            and not worker.over
            and worker.status.get("phase") not in TERMINAL
            and not self._is_orphan(worker)
        ]

    def _is_orphan(self, worker: PodWorker) -> bool:
        """A pod that an earlier agent left, and that the API has not: it is on its way out, and takes no room."""
        known = worker.pod.static or worker.pod.uid in self._unknown
        return not known and self._pods.has_synced and not self._is_wanted(worker.pod)

    def _containers(self, pod: JsonObject, container: str) -> list[Container]:
        worker = self._workers.get(pod["metadata"]["uid"])
        return [each for each in worker.seen.containers if each.name == container] if worker else []

    async def _all_over(self, workers: list[PodWorker]) -> None:
        while not all(worker.over for worker in workers):
            self._progress.clear()
            await self._progress.wait()


def _shown(worker: PodWorker, pod: Pod | None = None) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Pod", **(pod or worker.pod).raw, "status": worker.status}


def _disrupted(reason: str, message: str) -> PodTermination:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
    return PodTermination(reason, message, condition)
