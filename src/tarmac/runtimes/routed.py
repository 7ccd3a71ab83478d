"""Combines several drivers into one runtime: routes calls by the handler of a pod's RuntimeClass, or by an id's prefix.

The main driver runs every pod with a handler that no other driver claims. Each other driver claims its handlers and has
a unique prefix of ids (`vm-`), so routing by id needs no state and works across restarts of the agent. Image names are
chosen by users, so images are routed by the handler.

Lists, usage and events combine all drivers. A list is complete or fails: an unreachable driver must not look like an
empty one, or its pods would be considered gone. A query about one pod goes to the driver that has the pod, so no pod
depends on a driver other than its own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

from tarmac.api.schema import JsonObject
from tarmac.base.tasks import Tasks
from tarmac.runtimes.interface import (
    CommandStream,
    ConsoleOptions,
    ContainerConfig,
    Credentials,
    ExecResult,
    Handler,
    Image,
    PowerAction,
    Progress,
    Resources,
    Runtime,
    RuntimeContainer,
    RuntimeEvent,
    RuntimeFault,
    RuntimeSandbox,
    RuntimeStatus,
    RuntimeUsage,
    SandboxConfig,
    SessionOptions,
    StreamOptions,
)

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class RoutedDriver:
    """A driver beside the main one: its handlers, and the prefix of its sandbox and container ids."""

    runtime: Runtime
    handlers: frozenset[str]
    prefix: str


class RoutedRuntime:
    """Implements `Runtime`.

    `after_update` is called with a container's id after a change of its limits: a runtime may have reset other settings
    too.
    """

    def __init__(
        self, main: Runtime, *others: RoutedDriver, after_update: Callable[[str], None] = lambda _id: None
    ) -> None:
        self._main = main
        self._beside = others
        self._all = (main, *(each.runtime for each in others))
        self._by_handler = {name: each.runtime for each in others for name in each.handlers}
        self._after_update = after_update
        _check(others)

    async def status(self) -> RuntimeStatus:
        """Return the main driver's status, with the handlers of all. Another driver that is not ready offers none."""
        status = await self._main.status()
        offered = await asyncio.gather(*(_offered(each) for each in self._beside))
        own = (each for each in status.handlers if each.name not in self._by_handler)
        return replace(status, handlers=(*own, *(handler for each in offered for handler in each)))

    async def close(self) -> None:
        """Close all drivers."""
        await asyncio.gather(*(each.close() for each in self._all))

    # ---- sandboxes

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        """Run the sandbox with the driver that claims the handler; the main driver rejects unknown handlers."""
        return await self._of_handler(handler).run_sandbox(config, handler)

    async def stop_sandbox(self, id: str) -> None:
        await self._of_id(id).stop_sandbox(id)

    async def remove_sandbox(self, id: str) -> None:
        await self._of_id(id).remove_sandbox(id)

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[RuntimeSandbox]:
        if pod_uid is None:
            return await self._joined(lambda driver: driver.sandboxes())
        return await (await self._of_pod(pod_uid)).sandboxes(pod_uid)

    async def sandbox(self, id: str) -> RuntimeSandbox:
        return await self._of_id(id).sandbox(id)

    async def update_sandbox(self, id: str, classes: Mapping[str, str]) -> None:
        await self._of_id(id).update_sandbox(id, classes)

    # ---- containers

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        return await self._of_id(sandbox_id).create_container(sandbox_id, config, sandbox)

    async def start_container(self, id: str) -> None:
        await self._of_id(id).start_container(id)

    async def stop_container(self, id: str, grace: float) -> None:
        await self._of_id(id).stop_container(id, grace)

    async def remove_container(self, id: str) -> None:
        await self._of_id(id).remove_container(id)

    async def containers(self, pod_uid: str | None = None) -> Sequence[RuntimeContainer]:
        if pod_uid is None:
            return await self._joined(lambda driver: driver.containers())
        return await (await self._of_pod(pod_uid)).containers(pod_uid)

    async def container(self, id: str) -> RuntimeContainer:
        return await self._of_id(id).container(id)

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        try:
            await self._of_id(id).update_container(id, resources, classes)
        finally:  # also after a failure or cancellation: the change may have taken effect
            self._after_update(id)

    async def amend_spec(self, id: str, changes: JsonObject) -> None:
        await self._of_id(id).amend_spec(id, changes)

    async def reopen_log(self, id: str) -> None:
        await self._of_id(id).reopen_log(id)

    # ---- processes and streams

    async def exec(self, id: str, command: Sequence[str], timeout: float) -> ExecResult:
        return await self._of_id(id).exec(id, command, timeout)

    async def exec_stream(self, id: str, command: Sequence[str], options: StreamOptions) -> CommandStream:
        return await self._of_id(id).exec_stream(id, command, options)

    async def attach_stream(self, id: str, options: StreamOptions) -> CommandStream:
        return await self._of_id(id).attach_stream(id, options)

    async def console_stream(self, id: str, options: ConsoleOptions) -> CommandStream:
        return await self._of_id(id).console_stream(id, options)

    async def display_stream(self, id: str, options: SessionOptions) -> CommandStream:
        return await self._of_id(id).display_stream(id, options)

    async def power(self, id: str, action: PowerAction) -> None:
        await self._of_id(id).power(id, action)

    # ---- usage

    async def container_usage(self) -> Sequence[RuntimeUsage]:
        return await self._joined(lambda driver: driver.container_usage())

    async def sandbox_usage(self) -> Sequence[RuntimeUsage]:
        return await self._joined(lambda driver: driver.sandbox_usage())

    # ---- images

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        return await self._of_handler(handler).pull(image, credentials, progress, handler)

    async def image(self, name: str, handler: str = "") -> Image | None:
        found = await self._of_handler(handler).image(name, handler)
        return replace(found, handler=handler) if found is not None and handler in self._by_handler else found

    async def images(self) -> Sequence[Image]:
        """Return the images of all drivers, each with the handler of its driver."""
        own, *lists = await asyncio.gather(*(each.images() for each in self._all))
        named = [
            replace(image, handler=min(driver.handlers))
            for driver, images in zip(self._beside, lists, strict=True)
            for image in images
        ]
        return [*own, *named]

    async def remove_image(self, name: str, handler: str = "") -> None:
        await self._of_handler(handler).remove_image(name, handler)

    async def image_space(self) -> tuple[str, int, int]:
        """Return the mount point of the main driver's images, and the usage of all images on that mount point."""
        (folder, size, inodes), *spaces = await asyncio.gather(*(each.image_space() for each in self._all))
        here = [each for each in spaces if each[0] == folder]
        return folder, size + sum(each[1] for each in here), inodes + sum(each[2] for each in here)

    # ---- changes

    async def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        """Yield the events of all drivers."""
        # Room for one event: while the listener is busy each driver buffers its own, and merges repeated ones.
        queue: asyncio.Queue[RuntimeEvent | Exception | None] = asyncio.Queue(1)

        async def listen(driver: Runtime) -> None:
            try:
                async with aclosing(driver.events()) as events:
                    async for event in events:
                        await queue.put(event)
            except Exception as error:
                await queue.put(error)  # raised to the listener: a driver without events must not go unnoticed

        tasks = Tasks()
        for driver in self._all:
            tasks.begin(listen(driver), "events of a driver")
        try:
            while True:
                event = await queue.get()
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            await tasks.close()

    # ---- routing

    def _of_handler(self, handler: str) -> Runtime:
        return self._by_handler.get(handler, self._main)

    def _of_id(self, id: str) -> Runtime:
        return next((each.runtime for each in self._beside if id.startswith(each.prefix)), self._main)

    async def _of_pod(self, uid: str) -> Runtime:
        """Return the driver that has the pod's sandboxes. The main driver is asked last, since it has all the rest.

        Raises RuntimeFault while another driver is unreachable, unless a reachable one has the pod.
        """
        fault: RuntimeFault | None = None
        for driver in self._beside:
            try:
                if await driver.runtime.sandboxes(uid):
                    return driver.runtime
            except RuntimeFault as error:
                fault = error
        if fault is not None and not await self._main.sandboxes(uid):
            raise fault
        return self._main

    async def _joined(self, ask: Callable[[Runtime], Coroutine[None, None, Sequence[_Item]]]) -> list[_Item]:
        """Concatenate the results of all drivers; raise the error of one that fails."""
        return [item for items in await asyncio.gather(*(ask(each) for each in self._all)) for item in items]


async def _offered(driver: RoutedDriver) -> list[Handler]:
    """Return the handlers that a driver claims and offers, while it is ready."""
    try:
        status = await driver.runtime.status()
    except RuntimeFault:
        return []
    return [each for each in status.handlers if status.ready and each.name in driver.handlers]


def _check(drivers: Sequence[RoutedDriver]) -> None:
    """Reject ambiguous handlers and prefixes. Raises ValueError."""
    claimed = [name for each in drivers for name in each.handlers]
    if len(claimed) != len(set(claimed)) or not all(each.handlers for each in drivers):
        raise ValueError(f"each handler belongs to one driver, and each driver has one: {sorted(claimed)}")
    prefixes = sorted(each.prefix for each in drivers)
    if not all(prefixes) or any(after.startswith(before) for before, after in itertools.pairwise(prefixes)):
        raise ValueError(f"no prefix of ids may be empty or begin with another one: {prefixes}")
