"""Manages the pods of one node and their workers, and answers queries about them.

`PodManager` receives pods from the API (`spec.nodeName` is this node), from manifests in a directory, and, while the
server is unreachable, from checkpoints on disk. Each pod has one worker; runtime events and probe results only wake it.
Sandboxes of unknown pods are orphans. They are removed, but only after the API's pods have been listed.

Life of a pod here: received, admitted or rejected, running, over, removed from the API, cleaned up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.allocation.promises import Resizes
from tarmac.agent.containers.configs import ContainerConfigs
from tarmac.agent.containers.hooks import Hooks
from tarmac.agent.containers.imagepulls import ImagePuller
from tarmac.agent.containers.paths import PodPaths
from tarmac.agent.containers.repositories import RepositoryAccess
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.podclasses import PodClasses, Unclassed
from tarmac.agent.model.poddependencies import Connector, Handlers, PodCgroups
from tarmac.agent.model.podhub import PodHub
from tarmac.agent.model.podsettings import PodSettings
from tarmac.agent.model.waits import within
from tarmac.agent.pods.admission import AdmitCheck, PodAdmission, ResizeCheck
from tarmac.agent.pods.checkpoints import PodCheckpoints
from tarmac.agent.pods.cleanup import PodCleanup
from tarmac.agent.pods.dependencies import PodDependencies
from tarmac.agent.pods.restoration import Restoration, UndecidedPods
from tarmac.agent.pods.termination import MIN_GRACE
from tarmac.agent.pods.worker import PodEnding, PodWorker
from tarmac.agent.probes.checks import Checks
from tarmac.agent.static.manifests import Manifests
from tarmac.agent.static.mirrors import MirrorPodManager
from tarmac.agent.status.podstatus import rejected_status
from tarmac.agent.status.statusinputs import PodTermination
from tarmac.agent.status.writer import StatusWriter
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.schema import JsonObject
from tarmac.base.log import log
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import PODS, RUNTIME_CLASSES, SERVICES
from tarmac.runtimes.interface import Runtime, RuntimeContainer, RuntimeFault
from tarmac.volumes.interface import ObjectSources, VolumeError, Volumes

_LOG_INTERVAL = 60.0  # while the runtime does not answer
SYNC_TIMEOUT = 5.0
"""Time a starting agent waits for an unresponsive server before it continues with its checkpoints."""
SHUTDOWN_STATUS_TIMEOUT = 5.0
"""Time a node that shuts down waits for the server to accept the last statuses."""

_log = log("pods")

StatusListener = Callable[[JsonObject, JsonObject], None]


def no_notes(_uid: str) -> Mapping[str, str]:
    """Return no annotations."""
    return {}


class PodManager:
    """Runs the pods of this node. `node` returns the Node object as last reported, `informers` must be running.

    `notes` returns annotations that are written with a pod's status. `status_listeners` are called with a pod and every
    status reported of it. `hub` passes queries to this manager from now on.
    """

    def __init__(
        self,
        *,
        client: Client,
        informers: Informers,
        runtime: Runtime,
        volumes: Volumes,
        sources: ObjectSources,
        cgroups: PodCgroups,
        allocator: Allocator,
        classes: PodClasses | None = None,
        connect: Connector,
        node: Callable[[], JsonObject],
        handlers: Handlers,
        recorder: Recorder,
        settings: PodSettings,
        notes: Callable[[str], Mapping[str, str]] = no_notes,
        admit_checks: Sequence[AdmitCheck] = (),
        resize_checks: Sequence[ResizeCheck] = (),
        status_listeners: Sequence[StatusListener] = (),
        hub: PodHub | None = None,
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
        restoration = Restoration(client, settings.node_name, settings.root_dir / "restored", self._runs_something)
        # A list may come from a restored server that lacks pods of this node: they must not count as deleted.
        self._pods.guard_lists(restoration.around_listing)
        self._workers: dict[str, PodWorker] = {}
        self._restored = UndecidedPods(
            restoration, self._workers, clock, self._pods.synced, self._is_wanted, self._add, self._remove
        )
        self._services = informers.informer(SERVICES)
        self._classes = informers.informer(RUNTIME_CLASSES)
        self._admission = PodAdmission(
            settings, node, handlers, self._classes, allocator, self._others, admit_checks, resize_checks
        )
        self._checkpoints = PodCheckpoints(paths, clock)
        self._deps = PodDependencies(
            runtime=runtime,
            volumes=volumes,
            cgroups=cgroups,
            allocator=allocator,
            classes=classes or Unclassed(runtime),
            images=ImagePuller(runtime, RepositoryAccess(client, sources), recorder, clock, settings.parallel_pulls),
            configs=ContainerConfigs(settings, paths, volumes, sources),
            hooks=Hooks(runtime, connect, clock),
            checks=Checks(runtime, connect),
            recorder=recorder,
            clock=clock,
            randomness=client.randomness,
            settings=settings,
            paths=paths,
            checkpoints=self._checkpoints,
            node=node,
            services=lambda: [item.object for item in self._services.cache.items()],
            runtime_name=lambda: self._runtime_name,
            handler=self._admission.handler,
        )
        self._cleanup = PodCleanup(self._deps, self._checkpoints.forget)
        self._mirrors = MirrorPodManager(client, node)
        self._manifests = Manifests(settings.manifest_dir, settings.node_name, clock, settings.manifest_interval)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._removed: set[str] = set()
        self._static: dict[str, AgentPod] = {}
        self._in_runtime: set[str] = set()
        self._status_listeners = status_listeners
        self._ready = asyncio.Event()
        self._progress = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        if hub is not None:
            hub.open(self)

    # --- queries -----------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Wait until the pods of the runtime are known (from it or from disk). Before, an absent pod means nothing."""
        await self._ready.wait()

    def handler(self, pod: JsonObject) -> str:
        """Return the runtime handler of a pod's RuntimeClass. Raises ConfigMissing."""
        return self._admission.handler(AgentPod(pod))

    def pods(self) -> Sequence[JsonObject]:
        """Return all pods bound here with their current status; static pods as such, not as mirrors."""
        return [worker.shown() for worker in self._workers.values()]

    def allocated(self) -> Sequence[JsonObject]:
        """Return all pods like `pods`, but with the resources allocated to each instead of those its spec requests."""
        return [worker.shown(worker.allocation.effective(worker.pod)) for worker in self._workers.values()]

    def beside(self, uid: str) -> Sequence[AgentPod]:
        """Return all pods that use resources here, with their allocated resources, except the one with this uid."""
        return self._others(uid)

    def find(self, namespace: str, name: str, uid: str | None = None) -> JsonObject | None:
        """Return one pod with its current status."""
        worker = next(
            (
                each
                for each in self._workers.values()
                if (each.pod.namespace, each.pod.name) == (namespace, name) and uid in (None, "", each.pod.uid)
            ),
            None,
        )
        return None if worker is None else worker.shown()

    def container_id(self, pod: JsonObject, container: str, previous: bool = False) -> str | None:
        """Return the runtime's id of a container or of its previous attempt; None if there is none yet."""
        found = self._containers(pod, container)
        index = 1 if previous else 0
        return found[index].id if len(found) > index else None

    def sandbox_id(self, pod: JsonObject) -> str | None:
        """Return the runtime's id of the pod's ready sandbox, if any."""
        worker = self._workers.get(pod["metadata"]["uid"])
        ready = [each.id for each in worker.seen.sandboxes if each.ready] if worker else []
        return ready[0] if ready else None

    def log_path(self, pod: JsonObject, container: str, previous: bool = False) -> Path | None:
        """Return the log path of a container or of its previous attempt."""
        found = self._containers(pod, container)
        index = 1 if previous else 0
        if len(found) <= index:
            return None
        return self._deps.paths.container_log(AgentPod(pod), container, found[index].attempt)

    def evict(self, pod: JsonObject, reason: str, message: str, grace: float | None = None) -> None:
        """Evict a pod: it becomes Failed with this reason. The object stays for its controller."""
        worker = self._workers.get(pod["metadata"]["uid"])
        if worker is not None and not worker.ending:
            self._recorder.event(worker.pod.reference, "Warning", reason, message)
            worker.end(PodEnding(grace, _disrupted(reason, message)))

    async def drain(self, grace: float, critical_grace: float = 0.0) -> None:
        """Shut down the node gracefully: end ordinary pods within `grace`, then critical ones; reject new pods."""
        # First: a pod that is bound during the shutdown must not start.
        self._admission.shutting_down = True
        message = "Pod was terminated in response to imminent node shutdown."
        for critical, seconds in ((False, grace), (True, critical_grace)):
            going = [each for each in self._workers.values() if each.pod.critical is critical and not each.over]
            for worker in going:
                worker.end(PodEnding(min(seconds, worker.pod.grace), _disrupted("Terminated", message)))
            if going:
                # The terminator raises every grace period to MIN_GRACE: a shorter wait would always expire.
                await within(self._clock, max(seconds, MIN_GRACE + 1), self._all_over(going))
        await within(self._clock, SHUTDOWN_STATUS_TIMEOUT, self.writer.settled())

    def wake(self, uid: str | None = None) -> None:
        """Reconcile and retry one pod, or all, at once: an object it refers to has changed, or may have."""
        for worker in self._workers.values() if uid is None else self._known(uid):
            worker.retry()

    async def check_classes(self) -> None:
        """Check the QoS classes of all pods and correct deviations."""
        # A copy: pods come and go during the await.
        for worker in list(self._workers.values()):
            try:
                await worker.check_classes()
            except RuntimeFault as error:
                _log.info("pod classes cannot be checked", pod=worker.pod.key, error=str(error))

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the pods until cancelled. Cancellation leaves containers running."""
        await self._deps.volumes.start()
        await self._wait_for_runtime()
        # Containers get the addresses of Services, sandboxes need their RuntimeClass, and admission counts the pods
        # that the API has: worth a short wait, but not an outage.
        await within(self._clock, SYNC_TIMEOUT, self._lookups())
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._adopt()
                self._ready.set()
                # After the adoption: a listed pod that runs must find its worker, which knows its allocated resources.
                self._pods.on_change(self._changed)
                for part in (
                    self._listen,
                    self._sweep_periodically,
                    self._refresh_periodically,
                    self._read_manifests,
                    self._restored.run,
                    self._checkpoints.run,
                ):
                    group.create_task(part())
        finally:
            self._group = None
            # The writer closes last: the parts before it may still submit a status while they end.
            await self._mirrors.close()
            await self._cleanup.close()
            await self._deps.images.close()
            await self.writer.close()

    async def _wait_for_runtime(self) -> None:
        """Wait for the runtime; read its name and the pods it has sandboxes for."""
        logged_at = -_LOG_INTERVAL
        while True:
            try:
                self._runtime_name = (await self._deps.runtime.status()).name
                # Both calls must succeed: a pod missing here would be admitted as new although its containers run.
                self._in_runtime = {each.pod.uid for each in await self._deps.runtime.sandboxes()}
                return
            except RuntimeFault as error:
                if self._clock.monotonic() - logged_at >= _LOG_INTERVAL:
                    _log.warning("no container runtime answers, so no pod can run; is containerd up?", error=str(error))
                    logged_at = self._clock.monotonic()
                await self._clock.sleep(1)

    async def _lookups(self) -> None:
        await self._services.synced()
        await self._classes.synced()
        await self._pods.synced()

    def _adopt(self) -> None:
        """Start workers for checkpointed pods that the runtime has; the API confirms or removes them later."""
        for pod, promised in self._checkpoints.read():
            if pod.uid in self._in_runtime:
                self._begin(pod, promised)

    async def _listen(self) -> None:
        async for event in self._deps.runtime.events():
            for worker in self._workers.values() if event is None else self._known(event.pod_uid):
                worker.on_runtime_event(event)

    def _runs_something(self) -> bool:
        """Return True if a checkpoint exists.

        The API may answer before the runtime does, so this asks only the disk.
        """
        return any((self._deps.paths.root / "pods").glob("*/pod.json"))

    def _known(self, uid: str) -> list[PodWorker]:
        return [self._workers[uid]] if uid in self._workers else []

    async def _sweep_periodically(self) -> None:
        """Remove orphans once the API's pods have been listed, then periodically. Each time, wake all workers too."""
        await self._pods.synced()
        # A sweep before this would remove static pods that still run, as orphans.
        await self._manifests.read_once()
        while True:
            try:
                await self._sweep()
            except (RuntimeFault, VolumeError, OSError) as error:
                _log.info("orphan sweep failed, will retry", error=str(error))
            await self._clock.sleep(self._settings.relist)
            for worker in self._workers.values():
                worker.wake()

    async def _sweep(self) -> None:
        for uid, worker in list(self._workers.items()):
            if not worker.pod.static and uid not in self._removed and not self._is_wanted(worker.pod):
                self._restored.remove(uid)
        if self._restored.active:  # until the restore is settled, an unknown pod may still be wanted
            return
        # The workers are read after this await, so a pod added during it is not taken for an orphan.
        uids = {each.pod.uid for each in await self._deps.runtime.sandboxes()}
        uids |= {each.name for each in (self._deps.paths.root / "pods").glob("*") if each.is_dir()}
        uids |= self._deps.allocator.holders()  # resources held by a pod for which a killed agent created nothing else
        for uid in uids - self._workers.keys() - self._cleanup.busy:
            _log.info("orphaned pod removed", uid=uid)
            self._cleanup.clean_up(uid)
        # Pods in cleanup count as live: their own task unmounts their volumes.
        await self._deps.volumes.sweep(self._workers.keys() | self._cleanup.busy)

    def _is_wanted(self, pod: AgentPod) -> bool:
        """Return True if the API has this pod: a new one of its name may have replaced it unobserved."""
        # Compared by uid: the watch may have delivered the deletion and the creation of a name as one change.
        found = self._pods.cache.item(pod.key)
        return found is not None and found.metadata.uid == pod.uid

    async def _refresh_periodically(self) -> None:
        """Update projected files and renew tokens periodically."""
        while True:
            await self._clock.sleep(self._settings.volume_refresh)
            for worker in self._workers.values():
                if worker.seen.running and worker.pod.spec.get("volumes"):
                    worker.retry()

    async def _read_manifests(self) -> None:
        """Start and end static pods as their files come and go; mirror pods follow."""
        async for pods in self._manifests.changes():
            self._static = {pod.uid: pod for pod in pods}
            self._follow_manifests()

    def _follow_manifests(self) -> None:
        """Apply the manifests. A changed manifest is a new pod, started after the old one is gone."""
        for uid, worker in list(self._workers.items()):
            if worker.pod.static and uid not in self._static:
                self._remove(uid)
        names = {worker.pod.key for worker in self._workers.values() if worker.pod.static}
        for pod in self._static.values():
            if pod.key not in names:
                self._add(pod)

    # --- pods come and go -------------------------------------------------------------------------------------------

    def _changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        """Handle a change of a pod in the API."""
        if new is None:
            if old is not None:
                self._removed_from_api(AgentPod(old.object))
            return
        pod = AgentPod(new.object)
        self.writer.observe(pod)
        if is_mirror(pod.annotations):
            for worker in self._known(self._mirrors.observe(pod)):
                worker.wake()
            return
        worker = self._workers.get(pod.uid)
        if worker is not None:
            # Before the update: a pod that is still unknown to the restored server reports no status.
            self._restored.confirm(pod.uid)
            worker.update(pod)
            self._checkpoint(worker)
        elif self._restored.active and pod.uid not in self._in_runtime and not pod.deleted:
            self._restored.hold(pod)
        else:
            self._add(pod)

    def _add(self, pod: AgentPod) -> None:
        """Admit or reject a new pod and start its worker."""
        # A pod that already runs was admitted before; rejecting it now would kill containers after a restart of the
        # agent.
        known = pod.uid in self._in_runtime or pod.deleted or pod.finished
        why = None if known else self._admission.refusal(pod)
        if why is None:
            self._begin(pod)
            return
        reason, message = why
        _log.info("pod refused", pod=pod.key, reason=reason)
        self._recorder.event(pod.reference, "Warning", reason, message)
        self._begin(pod, refused=rejected_status(pod, reason, message, self._clock.now()))

    def _begin(self, pod: AgentPod, promised: Resizes | None = None, refused: JsonObject | None = None) -> None:
        uid = pod.uid

        def report(status: JsonObject, over: bool) -> None:
            self._report(uid, status, over)

        worker = PodWorker(
            self._deps,
            pod,
            report,
            self._admission.postponement,
            promised=promised,
            refused=refused,
            fresh=uid not in self._in_runtime,
        )
        # Registered before its task: the first pass reports to `_report`, which looks the worker up.
        self._workers[uid] = worker
        self._checkpoint(worker)
        assert self._group is not None, "workers belong to `run`"
        self._tasks[uid] = self._group.create_task(worker.run(), name=f"pod {pod.key}")

    def _report(self, uid: str, status: JsonObject, over: bool) -> None:
        worker = self._workers[uid]
        self._checkpoint(worker)
        for listener in self._status_listeners:
            listener(worker.pod.raw, status)
        if self._restored.is_unknown(uid):  # the API has no such pod, or a different one of that name
            pass
        elif not worker.pod.static:
            self.writer.submit(uid, status, self._notes(uid), delete=over and worker.pod.deleted)
        elif uid not in self._removed and (mirror := self._mirrors.of(worker.pod)) is not None:
            self.writer.submit(mirror, status, self._notes(uid))
        # A removed pod has no object that could show the status just submitted, which `_forget` drops.
        if over:
            self._progress.set()
            if uid in self._removed:
                self._forget(uid)

    def _removed_from_api(self, pod: AgentPod) -> None:
        """Handle a pod's removal from the API. Its last state has the grace period."""
        self._mirrors.gone(pod)
        # A report under way completes; one that is queued would fail on the uid, and be retried.
        self.writer.forget(pod.uid)
        self._restored.drop(pod.uid)
        # The last version has the grace period, which the watch may have delivered only with the deletion.
        if pod.deleted and pod.uid in self._workers:
            self._workers[pod.uid].update(pod)
        if self._restored.listing and not pod.deleted:
            self._restored.remove(pod.uid)
        else:
            self._remove(pod.uid)

    def _remove(self, uid: str) -> None:
        """Terminate the pod and clean it up: it is no longer wanted."""
        worker = self._workers.get(uid)
        if worker is None:
            return
        self._removed.add(uid)
        if worker.over:
            self._forget(uid)
        elif not worker.pod.deleted:
            worker.end(PodEnding())
        else:
            worker.wake()

    def _forget(self, uid: str) -> None:
        worker = self._workers.pop(uid)
        self._restored.confirm(uid)
        self.writer.forget(uid)
        # Possibly called from the worker's own pass; reporting that it is over is the last step of a pass.
        self._tasks.pop(uid).cancel()
        self._removed.discard(uid)
        self._in_runtime.discard(uid)
        self._cleanup.clean_up(uid, released=worker.released)
        if worker.pod.static:
            self._mirrors.drop(worker.pod)
            # A changed manifest of the same name has waited for this removal.
            self._follow_manifests()

    def _checkpoint(self, worker: PodWorker) -> None:
        """Queue a checkpoint of the pod."""
        if not worker.over:
            self._checkpoints.save(worker.pod, worker.status, worker.allocation.promised)

    # --- lookups ----------------------------------------------------------------------------------------------------

    def _others(self, uid: str) -> list[AgentPod]:
        """Return the pods that use resources here, except one."""
        return [
            worker.allocation.effective(worker.pod)
            for each, worker in self._workers.items()
            if each != uid
            and not worker.over
            and worker.status.get("phase") not in TERMINAL
            and not self._is_orphan(worker)
        ]

    def _is_orphan(self, worker: PodWorker) -> bool:
        """Return True for a pod that the API does not have: it is terminating and uses no resources."""
        known = worker.pod.static or self._restored.is_unknown(worker.pod.uid)
        return not known and self._pods.has_synced and not self._is_wanted(worker.pod)

    def _containers(self, pod: JsonObject, container: str) -> list[RuntimeContainer]:
        worker = self._workers.get(pod["metadata"]["uid"])
        return [each for each in worker.seen.containers if each.name == container] if worker else []

    async def _all_over(self, workers: list[PodWorker]) -> None:
        while not all(worker.over for worker in workers):
            # Cleared after the check and before the wait, without an await between them: a pod that ends is never
            # missed.
            self._progress.clear()
            await self._progress.wait()


def _disrupted(reason: str, message: str) -> PodTermination:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
    return PodTermination(reason, message, condition)
