"""A runtime that forwards every call to another one: the base class for wrappers that change a few calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import (
    CommandStream,
    ConsoleOptions,
    ContainerConfig,
    Credentials,
    ExecResult,
    Image,
    PowerAction,
    Progress,
    Resources,
    Runtime,
    RuntimeContainer,
    RuntimeEvent,
    RuntimeSandbox,
    RuntimeStatus,
    RuntimeUsage,
    SandboxConfig,
    SessionOptions,
    StreamOptions,
)


class ForwardingRuntime:
    """Implements `Runtime` by forwarding to `runtime`."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def status(self) -> RuntimeStatus:
        return await self.runtime.status()

    async def close(self) -> None:
        await self.runtime.close()

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        return await self.runtime.run_sandbox(config, handler)

    async def stop_sandbox(self, id: str) -> None:
        await self.runtime.stop_sandbox(id)

    async def remove_sandbox(self, id: str) -> None:
        await self.runtime.remove_sandbox(id)

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[RuntimeSandbox]:
        return await self.runtime.sandboxes(pod_uid)

    async def sandbox(self, id: str) -> RuntimeSandbox:
        return await self.runtime.sandbox(id)

    async def update_sandbox(self, id: str, classes: Mapping[str, str]) -> None:
        await self.runtime.update_sandbox(id, classes)

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        return await self.runtime.create_container(sandbox_id, config, sandbox)

    async def start_container(self, id: str) -> None:
        await self.runtime.start_container(id)

    async def stop_container(self, id: str, grace: float) -> None:
        await self.runtime.stop_container(id, grace)

    async def remove_container(self, id: str) -> None:
        await self.runtime.remove_container(id)

    async def containers(self, pod_uid: str | None = None) -> Sequence[RuntimeContainer]:
        return await self.runtime.containers(pod_uid)

    async def container(self, id: str) -> RuntimeContainer:
        return await self.runtime.container(id)

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        await self.runtime.update_container(id, resources, classes)

    async def amend_spec(self, id: str, changes: JsonObject) -> None:
        await self.runtime.amend_spec(id, changes)

    async def reopen_log(self, id: str) -> None:
        await self.runtime.reopen_log(id)

    async def exec(self, id: str, command: Sequence[str], timeout: float) -> ExecResult:
        return await self.runtime.exec(id, command, timeout)

    async def exec_stream(self, id: str, command: Sequence[str], options: StreamOptions) -> CommandStream:
        return await self.runtime.exec_stream(id, command, options)

    async def attach_stream(self, id: str, options: StreamOptions) -> CommandStream:
        return await self.runtime.attach_stream(id, options)

    async def console_stream(self, id: str, options: ConsoleOptions) -> CommandStream:
        return await self.runtime.console_stream(id, options)

    async def display_stream(self, id: str, options: SessionOptions) -> CommandStream:
        return await self.runtime.display_stream(id, options)

    async def power(self, id: str, action: PowerAction) -> None:
        await self.runtime.power(id, action)

    async def container_usage(self) -> Sequence[RuntimeUsage]:
        return await self.runtime.container_usage()

    async def sandbox_usage(self) -> Sequence[RuntimeUsage]:
        return await self.runtime.sandbox_usage()

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        return await self.runtime.pull(image, credentials, progress, handler)

    async def image(self, name: str, handler: str = "") -> Image | None:
        return await self.runtime.image(name, handler)

    async def images(self) -> Sequence[Image]:
        return await self.runtime.images()

    async def remove_image(self, name: str, handler: str = "") -> None:
        await self.runtime.remove_image(name, handler)

    async def image_space(self) -> tuple[str, int, int]:
        return await self.runtime.image_space()

    def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        return self.runtime.events()
