"""The client of a CRI socket, as a `Runtime`."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TypeVar

from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, SystemClock
from tarmac.runtimes.cri import decode, encode
from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.cri.channel import CriChannel, EncodableMessage
from tarmac.runtimes.cri.downloads import PullProgress
from tarmac.runtimes.cri.events import ChangeFeed, States
from tarmac.runtimes.cri.handlers import default_handler, handlers, sandbox_image
from tarmac.runtimes.cri.specs import amend
from tarmac.runtimes.cri.streaming import open_stream
from tarmac.runtimes.interface import (
    NOT_A_MACHINE,
    CommandStream,
    ConsoleOptions,
    ContainerConfig,
    Credentials,
    ExecResult,
    Image,
    ImageRefused,
    NotOffered,
    PowerAction,
    Progress,
    Resources,
    RuntimeContainer,
    RuntimeEvent,
    RuntimeObjectNotFound,
    RuntimeRefused,
    RuntimeSandbox,
    RuntimeStatus,
    RuntimeUnreachable,
    RuntimeUsage,
    SandboxConfig,
    SessionOptions,
    StreamOptions,
)
from tarmac.runtimes.labels import POD_UID

_Reply = TypeVar("_Reply")

_CALL_SECONDS = 120.0
_SANDBOX_SECONDS = 240.0  # includes the setup of networks
_EXEC_MARGIN_SECONDS = 30.0
MAX_EXEC_OUTPUT = 4 << 20  # of `exec`: the output of probes is unbounded, and many run at once


class CriRuntime:
    """One CRI runtime; `endpoint` is `unix://` and a path."""

    def __init__(self, endpoint: str, clock: Clock | None = None) -> None:
        self._channel = CriChannel(endpoint)
        self._clock = clock or SystemClock()
        self._downloads = PullProgress(self._channel, self._clock)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def status(self) -> RuntimeStatus:
        """Return name, version, readiness and handlers of the runtime."""
        version = await self._runtime("Version", pb.VersionRequest(version="v1"), pb.VersionResponse.FromString)
        reply = await self._runtime("Status", pb.StatusRequest(verbose=True), pb.StatusResponse.FromString)
        conditions = {each.type: each for each in reply.status.conditions}
        failed = next((each for each in reply.status.conditions if not each.status), pb.RuntimeCondition())
        return RuntimeStatus(
            name=version.runtime_name,
            version=version.runtime_version,
            ready="RuntimeReady" in conditions and conditions["RuntimeReady"].status,
            network_ready="NetworkReady" in conditions and conditions["NetworkReady"].status,
            handlers=handlers(reply),
            default=default_handler(reply),
            strict_groups=reply.features.supplemental_groups_policy if reply.HasField("features") else None,
            reason=failed.reason,
            message=failed.message,
            sandbox_image=sandbox_image(reply),
            classes=decode.classes(reply.status),
        )

    # ---- sandboxes

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        """Create and start a sandbox; return its id."""
        request = pb.RunPodSandboxRequest(config=encode.sandbox_message(config), runtime_handler=handler)
        reply = await self._runtime("RunPodSandbox", request, pb.RunPodSandboxResponse.FromString, _SANDBOX_SECONDS)
        return reply.pod_sandbox_id

    async def stop_sandbox(self, id: str) -> None:
        """Stop the sandbox's containers and release its network."""
        with contextlib.suppress(RuntimeObjectNotFound):
            await self._notify("StopPodSandbox", pb.PodSandboxIdRequest(pod_sandbox_id=id), _SANDBOX_SECONDS)

    async def remove_sandbox(self, id: str) -> None:
        """Remove the sandbox and its containers."""
        with contextlib.suppress(RuntimeObjectNotFound):
            await self._notify("RemovePodSandbox", pb.PodSandboxIdRequest(pod_sandbox_id=id), _SANDBOX_SECONDS)

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[RuntimeSandbox]:
        """Return all sandboxes, or those of a pod."""
        selector = {} if pod_uid is None else {POD_UID: pod_uid}
        request = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(label_selector=selector))
        reply = await self._runtime("ListPodSandbox", request, pb.ListPodSandboxResponse.FromString)
        return [decode.listed_sandbox(item) for item in reply.items]

    async def sandbox(self, id: str) -> RuntimeSandbox:
        """Return a sandbox with its addresses. Raises RuntimeObjectNotFound."""
        request = pb.PodSandboxIdRequest(pod_sandbox_id=id)
        reply = await self._runtime("PodSandboxStatus", request, pb.PodSandboxStatusResponse.FromString)
        return decode.sandbox(reply.status)

    async def update_sandbox(self, id: str, classes: Mapping[str, str]) -> None:
        """Change the QoS classes of the pod given in `classes`."""
        request = pb.UpdatePodSandboxConfigRequest(
            pod_sandbox_id=id, class_resources=pb.PodClassResources(classes=classes)
        )
        await self._notify("UpdatePodSandboxConfig", request)

    # ---- containers

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container; return its id."""
        request = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox_id,
            config=encode.container_message(config, sandbox_id, sandbox),
            sandbox_config=encode.sandbox_message(sandbox),
        )
        reply = await self._runtime("CreateContainer", request, pb.CreateContainerResponse.FromString)
        return reply.container_id

    async def start_container(self, id: str) -> None:
        """Start a container."""
        await self._notify("StartContainer", pb.ContainerIdRequest(container_id=id))

    async def stop_container(self, id: str, grace: float) -> None:
        """Stop a container, by force after `grace` seconds."""
        request = pb.StopContainerRequest(container_id=id, timeout=math.ceil(grace))
        with contextlib.suppress(RuntimeObjectNotFound):
            await self._notify("StopContainer", request, grace + _CALL_SECONDS)

    async def remove_container(self, id: str) -> None:
        """Remove a container, stopping it first if it runs."""
        with contextlib.suppress(RuntimeObjectNotFound):
            await self._notify("RemoveContainer", pb.ContainerIdRequest(container_id=id))

    async def containers(self, pod_uid: str | None = None) -> Sequence[RuntimeContainer]:
        """Return all containers, or those of a pod."""
        selector = {} if pod_uid is None else {POD_UID: pod_uid}
        request = pb.ListContainersRequest(filter=pb.ContainerFilter(label_selector=selector))
        reply = await self._runtime("ListContainers", request, pb.ListContainersResponse.FromString)
        return [decode.listed_container(item) for item in reply.containers]

    async def container(self, id: str) -> RuntimeContainer:
        """Return a container with all fields. Raises RuntimeObjectNotFound."""
        request = pb.ContainerStatusRequest(container_id=id)
        reply = await self._runtime("ContainerStatus", request, pb.ContainerStatusResponse.FromString)
        return decode.container(reply.status)

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        """Change the limits of a running container, and the QoS classes given in `classes`."""
        request = pb.UpdateContainerResourcesRequest(
            container_id=id,
            linux=encode.resources_message(resources) if resources else None,
            class_resources=pb.ContainerClassResources(classes=classes) if classes else None,
        )
        await self._notify("UpdateContainerResources", request)

    async def amend_spec(self, id: str, changes: JsonObject) -> None:
        """Change the OCI specification of a container that was not started yet."""
        await amend(self._channel, id, changes)

    async def reopen_log(self, id: str) -> None:
        """Reopen the log file after its rotation."""
        await self._notify("ReopenContainerLog", pb.ContainerIdRequest(container_id=id))

    # ---- processes and streams

    async def exec(self, id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Run a command and return its output. Raises TimeoutError; RuntimeRefused above `MAX_EXEC_OUTPUT` bytes."""
        seconds = math.ceil(timeout)
        request = pb.ExecSyncRequest(container_id=id, cmd=command, timeout=seconds)
        deadline = seconds + _EXEC_MARGIN_SECONDS if seconds else None
        try:
            answer = pb.ExecSyncResponse.FromString
            reply = await self._runtime("ExecSync", request, answer, deadline, longest=MAX_EXEC_OUTPUT)
        except (RuntimeRefused, RuntimeUnreachable) as fault:
            if "deadline exceeded" in str(fault).lower():
                raise TimeoutError(str(fault)) from fault
            raise
        return ExecResult(reply.stdout, reply.stderr, reply.exit_code)

    async def exec_stream(self, id: str, command: Sequence[str], options: StreamOptions) -> CommandStream:
        """Open a stream to a new process."""
        request = pb.ExecRequest(
            container_id=id,
            cmd=command,
            tty=options.tty,
            stdin=options.stdin,
            stdout=options.stdout,
            stderr=options.stderr,
        )
        return await open_stream((await self._runtime("Exec", request, pb.UrlResponse.FromString)).url, options)

    async def attach_stream(self, id: str, options: StreamOptions) -> CommandStream:
        """Open a stream to the container's main process."""
        request = pb.AttachRequest(
            container_id=id, tty=options.tty, stdin=options.stdin, stdout=options.stdout, stderr=options.stderr
        )
        return await open_stream((await self._runtime("Attach", request, pb.UrlResponse.FromString)).url, options)

    # ---- machines: not offered by containers

    async def console_stream(self, id: str, options: ConsoleOptions) -> CommandStream:
        raise NotOffered(NOT_A_MACHINE)

    async def display_stream(self, id: str, options: SessionOptions) -> CommandStream:
        raise NotOffered(NOT_A_MACHINE)

    async def power(self, id: str, action: PowerAction) -> None:
        raise NotOffered(NOT_A_MACHINE)

    # ---- usage

    async def container_usage(self) -> Sequence[RuntimeUsage]:
        """Return the usage of each container."""
        reply = await self._runtime("ListContainerStats", pb.Nothing(), pb.ListContainerStatsResponse.FromString)
        return [decode.container_usage(stats) for stats in reply.stats]

    async def sandbox_usage(self) -> Sequence[RuntimeUsage]:
        """Return the usage of each sandbox, its containers included."""
        reply = await self._runtime("ListPodSandboxStats", pb.Nothing(), pb.ListPodSandboxStatsResponse.FromString)
        return [decode.sandbox_usage(stats) for stats in reply.stats]

    # ---- images

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        """Pull an image; return its id. Raises ImageRefused."""
        request = pb.PullImageRequest(
            image=pb.ImageSpec(image=image),
            auth=encode.auth_message(credentials) if credentials else None,
        )
        async with self._downloads.reporting_to(progress):
            try:
                reply = await self._image("PullImage", request, pb.PullImageResponse.FromString, None)
            except (RuntimeObjectNotFound, RuntimeRefused) as refusal:
                raise ImageRefused(str(refusal)) from refusal
        return reply.image_ref

    async def image(self, name: str, handler: str = "") -> Image | None:
        """Return a present image by name or id, or None."""
        request = pb.ImageRequest(image=pb.ImageSpec(image=name), verbose=True)
        reply = await self._image("ImageStatus", request, pb.ImageStatusResponse.FromString)
        return decode.image(reply.image, reply.info.get("info", "")) if reply.HasField("image") else None

    async def images(self) -> Sequence[Image]:
        """Return all present images."""
        reply = await self._image("ListImages", pb.Nothing(), pb.ListImagesResponse.FromString)
        return [decode.image(item) for item in reply.images]

    async def remove_image(self, name: str, handler: str = "") -> None:
        """Remove an image by name or id, under all its names."""
        with contextlib.suppress(RuntimeObjectNotFound):
            await self._image("RemoveImage", pb.ImageRequest(image=pb.ImageSpec(image=name)), pb.Nothing.FromString)

    async def image_space(self) -> tuple[str, int, int]:
        """Return the mount point of the images, and the bytes and inodes they use."""
        reply = await self._image("ImageFsInfo", pb.Nothing(), pb.ImageFsInfoResponse.FromString)
        if not reply.image_filesystems:
            return "", 0, 0
        usage = reply.image_filesystems[0]
        return usage.fs_id.mountpoint, usage.used_bytes.value, usage.inodes_used.value

    # ---- changes

    def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        """Yield changes for ever; None: list everything. One listener at a time (containerd 1.7)."""
        return ChangeFeed(self._channel, self._states, self._clock).changes()

    async def _states(self) -> States:
        sandboxes, containers = await asyncio.gather(self.sandboxes(), self.containers())
        return {
            **{each.id: (each.pod.uid, each.ready) for each in sandboxes},
            **{each.id: (each.labels.get(POD_UID, ""), each.state) for each in containers},
        }

    # ---- calls

    async def _runtime(
        self,
        method: str,
        request: EncodableMessage,
        decode: Callable[[bytes], _Reply],
        timeout: float | None = _CALL_SECONDS,
        longest: int | None = None,
    ) -> _Reply:
        path = f"runtime.v1.RuntimeService/{method}"
        return await self._channel.call(path, request, decode, timeout, longest=longest)

    async def _notify(self, method: str, request: EncodableMessage, timeout: float = _CALL_SECONDS) -> None:
        await self._runtime(method, request, pb.Nothing.FromString, timeout)

    async def _image(
        self,
        method: str,
        request: EncodableMessage,
        decode: Callable[[bytes], _Reply],
        timeout: float | None = _CALL_SECONDS,
    ) -> _Reply:
        return await self._channel.call(f"runtime.v1.ImageService/{method}", request, decode, timeout)
