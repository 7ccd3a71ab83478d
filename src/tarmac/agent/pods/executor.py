"""Executes the steps of a plan and records their results.

`StepExecutor` executes the steps of one pod in order. A failure is recorded as an event and, for a container, as its
waiting reason; the worker retries later. Starting stops at the first container whose image is still being pulled, so
that containers start in the order of the spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from pathlib import Path

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.containers.configs import ContainerToMake
from tarmac.agent.containers.hooks import HookFailed
from tarmac.agent.containers.identity import without_ids
from tarmac.agent.containers.imagepulls import ImageUnavailable, Pulling
from tarmac.agent.containers.sandboxes import sandbox_config
from tarmac.agent.containers.security import SecurityRefused
from tarmac.agent.environment.hosts import HostnameTooLong
from tarmac.agent.environment.resolving import read_resolv_conf, resolving
from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.allotment import AllocationRefused
from tarmac.agent.model.backoff import BackOffs
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.podclasses import Classes, ClassRequest, RunningContainer
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.agent.pods.dependencies import PodDependencies
from tarmac.agent.pods.podactions import MakeSandbox, Resize, Start
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.base.log import log
from tarmac.runtimes.interface import (
    NO_EXEC,
    ContainerConfig,
    Image,
    Runtime,
    RuntimeFault,
    RuntimeObjectNotFound,
    RuntimeRefused,
    RuntimeSandbox,
    SandboxConfig,
)
from tarmac.volumes.claimeddisks import is_machine
from tarmac.volumes.interface import MountedVolume, VolumeError

_log = log("pods")


class StepFailed(Exception):
    """A step that concerns the whole pod failed. Its event has been recorded."""


class StepExecutor:
    """Executes the planned steps of one pod."""

    def __init__(self, deps: PodDependencies, back_offs: BackOffs, wake: Callable[[], None]) -> None:
        self.waiting: dict[str, tuple[str, str]] = {}
        """Waiting reason and message by container name."""
        self.applied: dict[str, JsonObject] = {}
        """Resources applied to running containers, by name."""
        self.classed: dict[str, Classes] = {}
        """QoS classes applied to running containers, by name."""
        self.retry_at: float | None = None
        self._deps = deps
        self._back_offs = back_offs
        self._wake = wake
        self._volumes: Mapping[str, MountedVolume] | None = None
        self._cgroup: str | None = None
        self._shared: tuple[AgentPod, SandboxConfig] | None = None
        self._quota_set = False
        self._not_before: dict[str, float] = {}
        self._stale = False
        self._outdated: set[str] = set()  # volumes that changed after the virtual machine started

    def invalidate(self) -> None:
        """Clear retry delays and mark volumes for a refresh: an object that the pod refers to has changed."""
        self._not_before.clear()
        self._stale = True

    async def refresh(self, pod: AgentPod, seen: PodRuntimeState) -> None:
        """Update files projected from objects, if they were marked as out of date."""
        if not self._stale:
            return
        # Before the call: an object that changes during it marks the volumes again.
        self._stale = False
        try:
            changed = await self._deps.volumes.refresh(pod.raw)
        except VolumeError as error:
            self._record_volume_error(pod, error)
            return
        # A machine that has not started yet (its image is being pulled) gets the current files.
        if is_machine(pod.raw) and seen.running:
            self._record_not_updated(pod, changed)

    def _record_not_updated(self, pod: AgentPod, changed: Set[str]) -> None:
        """Record that a machine still has the old files: it sees them as a disk made at its start. Once per start."""
        for volume in sorted(changed - self._outdated):
            message = f'Volume "{volume}" has changed; the machine sees it when it is restarted'
            self._deps.recorder.event(pod.reference, "Normal", "VolumeNotUpdated", message)
        self._outdated |= changed

    def adopt(
        self,
        seen: PodRuntimeState,
        promised: Mapping[str, JsonObject],
        classes: Mapping[str, Classes],
        reported: Mapping[str, JsonObject],
    ) -> None:
        """Assume that containers of an earlier agent have the resources it allocated, or those it reported last.

        `reported` are resources by container id, from the earlier agent's last status.
        """
        for container in seen.running:
            if container.name in promised:
                # Both differ if that agent was killed between the allocation and the change of the container.
                found = {**promised[container.name], **reported.get(container.id, {})}
                # Never overwritten: after a resize `promised` is ahead of the containers, and the difference is the
                # work left to do.
                self.applied.setdefault(container.name, found)
                self.classed.setdefault(container.name, classes.get(container.name, {}))

    # --- the whole pod ----------------------------------------------------------------------------------------------

    async def make_sandbox(self, pod: AgentPod, action: MakeSandbox) -> str:
        """Create everything the containers share; return the sandbox's id. Raises StepFailed."""
        if action.replaces:
            message = "Pod sandbox changed, it will be killed and re-created."
            self._deps.recorder.event(pod.reference, "Normal", "SandboxChanged", message)
        if not is_machine(pod.raw):
            # The disk of a machine is made from its image, so its volumes are mounted after the pull; its sandbox needs
            # none.
            await self._prepare(pod)
        self._quota_set = False
        try:
            handler = self._deps.handler(pod)
            config = await self._sandbox_config(pod, action.attempt)
            Path(config.log_directory).mkdir(parents=True, exist_ok=True)
            self._deps.images.expect(pod, handler)
            # A cancelled call may still make the sandbox in the runtime; the next pass finds it by inspection.
            return await self._deps.runtime.run_sandbox(config, handler)
        except (RuntimeFault, ConfigMissing, HostnameTooLong, OSError) as error:
            await self._record_no_sandbox(pod, error)
            raise StepFailed from error

    async def set_quota(self, pod: AgentPod) -> None:
        """Set the CPU limit of the pod's cgroup. Done once containers run, so that it does not slow their start."""
        if self._quota_set:
            return
        try:
            await self._deps.cgroups.update(self._deps.allocator.allot(pod))
            self._quota_set = True
        except CgroupError as error:
            _log.warning("pod CPU limit cannot be set, will retry", pod=pod.key, error=str(error))
            self.request_retry(self._deps.clock.monotonic() + self._deps.settings.retry)

    async def release(self, uid: str) -> None:
        """Unmount the volumes and remove the cgroup of a finished pod. Raises VolumeError, CgroupError."""
        # Every step may be repeated: after a failure the worker runs the whole release again.
        await self._deps.volumes.unmount(uid)
        self._volumes = None
        await self._deps.cgroups.remove(uid)
        self._cgroup = None
        # Last: freed CPUs and devices may be assigned at once, so no process of the pod may be left.
        self._deps.allocator.release(uid)
        self._deps.classes.forget(uid)

    async def _prepare(self, pod: AgentPod) -> Mapping[str, MountedVolume]:
        """Create the pod's directory and mount its volumes. Raises StepFailed."""
        if self._volumes is None:
            self._deps.paths.home(pod.uid).mkdir(parents=True, exist_ok=True, mode=0o750)
            try:
                self._volumes = await self._deps.volumes.mount(pod.raw)
            except VolumeError as error:
                self._record_volume_error(pod, error)
                raise StepFailed from error
        return self._volumes

    def _record_volume_error(self, pod: AgentPod, error: VolumeError) -> None:
        message = f'MountVolume.SetUp failed for volume "{error.volume}" : {error}'
        self._deps.recorder.event(pod.reference, "Warning", error.reason, message)

    async def _sandbox_config(self, pod: AgentPod, attempt: int) -> SandboxConfig:
        """Return the sandbox's configuration. Cached, since each container of the sandbox is created with it too."""
        if self._shared is not None and self._shared[0] is pod and self._shared[1].pod.attempt == attempt:
            return self._shared[1]
        settings = self._deps.settings
        if self._cgroup is None:
            try:
                # Before the sandbox: the runtime would create a missing parent cgroup itself, without limits.
                self._cgroup = await self._deps.cgroups.create(self._deps.allocator.allot(pod))
            except CgroupError as error:
                message = f"unable to ensure pod container exists: {error}"
                self._deps.recorder.event(pod.reference, "Warning", "FailedCreatePodContainer", message)
                raise StepFailed from error
        dns = resolving(pod, read_resolv_conf(settings.resolv_conf), settings.cluster_dns, settings.cluster_domain)
        for warning in dns.warnings:
            self._deps.recorder.event(pod.reference, "Warning", "DNSConfigForming", warning)
        config = replace(
            sandbox_config(pod, attempt, self._deps.paths, self._cgroup, dns, settings.cluster_domain),
            annotations=self._deps.classes.handed_on(pod),
            classes=self._deps.classes.of_sandbox(self._deps.allocator.allot(pod)),
        )
        self._shared = pod, config
        return config

    async def _record_no_sandbox(self, pod: AgentPod, error: Exception) -> None:
        # The id of a sandbox changes with each attempt: events are merged by their text, and each would be a new one.
        detail = without_ids(str(error), pod.name)
        reason, message = "FailedCreatePodSandBox", f"Failed to create pod sandbox: {detail}"
        why = await _network_error(self._deps.runtime) if isinstance(error, RuntimeFault) else ""
        if why and not pod.host_network:
            reason, message = "NetworkNotReady", f"network is not ready: container runtime network not ready: {why}"
        self._deps.recorder.event(pod.reference, "Warning", reason, message)

    # --- containers -------------------------------------------------------------------------------------------------

    async def start(self, pod: AgentPod, action: Start, sandbox: RuntimeSandbox, seen: PodRuntimeState) -> str | None:
        """Start a container and return its id.

        Empty: it waits, with a recorded reason. None: its image is being pulled.
        """
        name = action.container["name"]
        if name in self.waiting and self._not_before.get(name, 0.0) > self._deps.clock.monotonic():
            self.request_retry(self._not_before[name])
            return ""
        try:
            if action.created:
                return await self._run_created(pod, action, sandbox)
            if sandbox.handler == MACHINE_CLASS and action.container in pod.ephemeral_containers:
                self._soon(name)  # checked before the image pull: a machine has no image for it
                return self._fail(pod, name, "CreateContainerConfigError", NO_EXEC, f"Error: {NO_EXEC}")
            image = await self._deps.images.ensure(pod, action.container, sandbox.handler, self._wake)
            if isinstance(image, Pulling):
                return None
            if isinstance(image, ImageUnavailable):
                self._later(name, image.retry_at)
                return self._fail(pod, name, image.reason, image.message, f"Error: {image.reason}")
            if action.instead:
                # Before the new one: containerd reserves the name and attempt of a container until it is removed.
                await self._discard(pod, action, action.instead)
            if action.failed_at is not None:
                self._back_offs.next(name, action.failed_at, self._deps.clock.now())
            created = await self._create(pod, action, sandbox, seen, image)
            return await self._run(pod, action.container, created, sandbox, fresh=True) if created else ""
        except RuntimeFault as error:
            self._soon(name)
            why = without_ids(str(error), name, sandbox.id)
            return self._fail(pod, name, "RunContainerError", why, f"Error: {why}")

    async def _create(
        self, pod: AgentPod, action: Start, sandbox: RuntimeSandbox, seen: PodRuntimeState, image: Image
    ) -> str:
        container = action.container
        name = container["name"]
        self._outdated.clear()
        try:
            # Before the configuration: devices assigned here change the allotment that it is made from.
            await self._deps.allocator.before_start(pod, name)
            wanted = ContainerToMake(
                pod,
                container,
                self._attempt(pod, action),
                image,
                await self._prepare(pod),
                self._deps.surroundings(sandbox, pod),
                self._deps.allocator.allot(pod).containers[name],
                target=_target(container, seen),
            )
            config = await self._deps.configs.config(wanted)
        except (ConfigMissing, SecurityRefused, AllocationRefused, OSError) as error:
            self._soon(name)
            return self._fail(pod, name, "CreateContainerConfigError", str(error), f"Error: {error}")
        try:
            shared = await self._sandbox_config(pod, sandbox.pod.attempt)
            config = self._classed(config, self._deps.classes.request(self._deps.allocator.allot(pod), name))
            # A cancelled call may leave a created container; the next plan starts that one instead of making another.
            created = await self._deps.runtime.create_container(sandbox.id, config, shared)
        except RuntimeFault as error:
            self._soon(name)
            why = without_ids(str(error), name, sandbox.id)
            return self._fail(pod, name, "CreateContainerError", why, f"Error: {why}")
        self._event(pod, name, "Created", "Container created")
        return created

    async def _run_created(self, pod: AgentPod, action: Start, sandbox: RuntimeSandbox) -> str:
        """Start a container that an earlier agent had created.

        If that is impossible, remove it so a new one can be created.
        """
        try:
            return await self._run(pod, action.container, action.created, sandbox, fresh=False)
        except (RuntimeRefused, RuntimeObjectNotFound):
            # Not when the runtime is unreachable: the container may have started by then, and must stay.
            await self._discard(pod, action, action.created)
            raise

    async def _discard(self, pod: AgentPod, action: Start, id: str) -> None:
        """Remove a container that never ran.

        Its log goes first: with the log in place the next one would be a new attempt.
        """
        # A kill between these two steps leaves a container without a log, which the next agent discards again.
        self._deps.paths.container_log(pod, action.container["name"], action.attempt).unlink(missing_ok=True)
        await self._deps.runtime.remove_container(id)

    @staticmethod
    def _classed(config: ContainerConfig, asked: ClassRequest) -> ContainerConfig:
        return replace(
            config,
            annotations={**config.annotations, **asked.annotations},
            classes=asked.classes,
            resources=replace(config.resources, unified={**config.resources.unified, **asked.unified}),
        )

    async def _run(self, pod: AgentPod, container: JsonObject, id: str, sandbox: RuntimeSandbox, *, fresh: bool) -> str:
        name = container["name"]
        # Keep these two calls adjacent: a container must be in its classes when it starts, also if an earlier agent
        # made it.
        await self._deps.classes.prepare(
            self._deps.allocator.allot(pod), RunningContainer(name, id, sandbox), fresh=fresh
        )
        await self._deps.runtime.start_container(id)
        # From here the container runs: a cancellation below leaves it running, and the next pass finds it by
        # inspection.
        self._event(pod, name, "Started", "Container started")
        self.waiting.pop(name, None)
        self._given(pod, container)
        hook = (container.get("lifecycle") or {}).get("postStart")
        if hook:
            # A pass cancelled here, or a killed agent, does not run the hook again: the next pass sees a running
            # container.
            await self._after_start(pod, container, id, hook, sandbox)
        return id

    async def _after_start(
        self, pod: AgentPod, container: JsonObject, id: str, hook: JsonObject, sandbox: RuntimeSandbox
    ) -> None:
        """Run the postStart hook. If it fails, stop the container."""
        address = next(iter(self._deps.surroundings(sandbox, pod).pod_addresses), "")
        try:
            await self._deps.hooks.run(pod, container, id, hook, address)
        except HookFailed as error:
            self._fail(
                pod, container["name"], "PostStartHookError", str(error), "PostStartHook failed", "FailedPostStartHook"
            )
            self._event(pod, container["name"], "Killing", "FailedPostStartHook")
            await self._deps.runtime.stop_container(id, pod.grace)

    async def resize(self, pod: AgentPod, action: Resize, sandbox: RuntimeSandbox) -> bool:
        """Apply new limits or new classes to a running container. Returns False on failure."""
        name = action.container["name"]
        allotment = self._deps.allocator.allot(pod)
        try:
            # The pod's cgroup first: a container cannot get more than its parent has.
            if action.amounts:
                await self._deps.cgroups.update(allotment)
            limits = allotment.containers[name].resources() if action.amounts else None
            await self._deps.classes.change(allotment, RunningContainer(name, action.id, sandbox), limits)
        except (RuntimeFault, CgroupError) as error:
            self._soon(name)
            message = f"Error resizing container {name}: {without_ids(str(error), name, sandbox.id)}"
            self._deps.recorder.event(pod.reference, "Warning", "ResizeError", message)
            return False
        # Only after both calls succeeded: the status reports these amounts as in effect.
        self._given(pod, action.container)
        return True

    def _given(self, pod: AgentPod, container: JsonObject) -> None:
        """Record the resources and classes that a running container has now."""
        self.applied[container["name"]] = container.get("resources") or {}
        self.classed[container["name"]] = self._deps.allocator.allot(pod).containers[container["name"]].classes

    def _attempt(self, pod: AgentPod, action: Start) -> int:
        """Return the attempt number.

        If the runtime lost its containers, count on from their logs instead of overwriting.
        """
        if action.attempt or action.instead:
            return action.attempt
        try:
            logs = [each.stem for each in self._deps.paths.container_logs(pod, action.container["name"]).iterdir()]
        except OSError:
            return 0
        return max((int(each.partition(".")[0]) + 1 for each in logs if each.partition(".")[0].isdigit()), default=0)

    # --- status and events ------------------------------------------------------------------------------------------

    def request_retry(self, at: float) -> None:
        """Request a retry at this monotonic time."""
        self.retry_at = at if self.retry_at is None else min(self.retry_at, at)

    def _soon(self, container: str) -> None:
        self._later(container, self._deps.clock.monotonic() + self._deps.settings.retry)

    def _later(self, container: str, at: float) -> None:
        """Retry this container not before `at`, however often the worker runs until then."""
        self._not_before[container] = at
        self.request_retry(at)

    def _fail(
        self, pod: AgentPod, container: str, reason: str, message: str, event: str, event_reason: str = "Failed"
    ) -> str:
        """Record the waiting reason of a container and an event; return the empty id."""
        if self.waiting.get(container) != (reason, message):
            _log.info("container not started", pod=pod.key, container=container, reason=reason)
        self.waiting[container] = (reason, message)
        self._deps.recorder.event(pod.container_reference(container), "Warning", event_reason, event)
        return ""

    def _event(self, pod: AgentPod, container: str, reason: str, message: str) -> None:
        self._deps.recorder.event(pod.container_reference(container), "Normal", reason, message)


def _target(container: JsonObject, seen: PodRuntimeState) -> str:
    """Return the container whose processes an ephemeral container shares. Raises ConfigMissing."""
    name = container.get("targetContainerName")
    if not name:
        return ""
    target = seen.latest(name)
    if target is None:
        raise ConfigMissing(f'unable to find target container "{name}"')
    return target.id


async def _network_error(runtime: Runtime) -> str:
    """Return the runtime's reason for an unready network, or an empty string."""
    try:
        status = await runtime.status()
    except RuntimeFault:
        return ""
    return "" if status.network_ready else status.message or status.reason or "NetworkReady=false"
