"""An in-memory runtime that passes the contract suite and lets a test control its behaviour.

    runtime = FakeRuntime(clock=clock)
    runtime.programs["web"] = Program(starts_after=3)              # by container name or image
    runtime.trouble("run_sandbox", RuntimeRefused("no network"), times=2)  # the next two calls fail
    runtime.end_container(id, 1)                                    # a crash
    runtime.unplug(); runtime.plug_in()                             # unreachable; reachable again

Processes keep running while it is unplugged, as they do without a containerd. Time is the clock's.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.fake.fakemachines import FakeMachine, FakeMachines
from tarmac.runtimes.fake.fakestate import KILLED, FakeContainer, FakeSandbox, live
from tarmac.runtimes.fake.fakestreams import FakeStream
from tarmac.runtimes.fake.programs import FakeProgram, InjectedFault, RegistryImage
from tarmac.runtimes.interface import (
    NO_EXEC,
    CommandStream,
    ConsoleOptions,
    ContainerConfig,
    Credentials,
    ExecResult,
    Handler,
    Image,
    ImageRefused,
    NotOffered,
    PowerAction,
    Progress,
    Resources,
    RuntimeContainer,
    RuntimeEvent,
    RuntimeFault,
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
from tarmac.runtimes.labels import container_labels, sandbox_labels

HANDLERS = (Handler("gvisor", own_kernel=True), Handler("runc"))


class FakeRuntime:
    """A fake runtime. Public attributes and methods beyond the interface are for tests."""

    def __init__(
        self,
        clock: Clock | None = None,
        handlers: tuple[Handler, ...] = HANDLERS,
        id_prefix: str = "",
        machine_handler: str = "",  # the handler with sandboxes that are virtual machines
    ) -> None:
        self.handlers = handlers
        self.programs: dict[str, FakeProgram] = {}  # by container name or image; default: FakeProgram()
        self.registry: dict[str, RegistryImage] = {}
        self.calls: list[tuple[str, str]] = []  # method and subject of each call, in order
        self.network_ready = True
        self.amended: dict[str, JsonObject] = {}  # last patch of the OCI specification, by container id
        self._clock = clock or SystemClock()
        self._plugged = True
        self._troubles: dict[str, InjectedFault] = {}
        self._sandboxes: dict[str, FakeSandbox] = {}
        self._containers: dict[str, FakeContainer] = {}
        self._lives = Tasks()
        self._machine_handler = machine_handler
        self._machines = FakeMachines(self._clock)
        self._images: dict[str, Image] = {}
        self._ids = (f"{id_prefix}{number:064x}" for number in itertools.count(1))
        self._listeners: list[asyncio.Queue[RuntimeEvent | None]] = []

    # ---- for tests

    def trouble(self, method: str, fault: RuntimeFault | None, *, times: int = 1, delay: float = 0.0) -> None:
        """Make the next calls of a method fail, or just be late."""
        self._troubles[method] = InjectedFault(fault, times, delay)

    def end_container(self, id: str, code: int, reason: str = "") -> None:
        """End the container's process now, as if by itself."""
        container = self._containers[id]
        container.end(code, self._clock.now(), reason)
        self._notify(container.sandbox.pod.uid, id, "stopped")

    def stand_still(self, id: str, reason: str) -> None:
        """Stall a running container for this reason; an empty one resumes it."""
        container = self._containers[id]
        container.shown = replace(container.shown, reason=reason)
        self._notify(container.sandbox.pod.uid, id, "")

    def end_sandbox(self, id: str) -> None:
        """Fail the sandbox, with all its containers."""
        for container in self._inside(id):
            container.end(KILLED, self._clock.now())
        sandbox = self._sandboxes[id]
        sandbox.shown = replace(sandbox.shown, ready=False)
        self._notify(sandbox.config.pod.uid, id, "stopped")

    def unplug(self) -> None:
        """Become unreachable; processes keep running."""
        self._plugged = False

    def plug_in(self) -> None:
        """Become reachable again, and tell listeners to list everything."""
        self._plugged = True
        for queue in self._listeners:
            queue.put_nowait(None)

    def add_image(self, name: str, image: RegistryImage | None = None) -> str:
        """Add an image without a pull; return its id."""
        image = image or RegistryImage()
        digest = f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"
        self._images[name] = Image(digest, (name,), (), image.size, image.user, image.user_name)
        return digest

    def machine_of(self, id: str) -> FakeMachine:
        """Return the machine of a container."""
        return self._machines.known(self._known(id).shown.sandbox_id)

    def resources_of(self, id: str) -> Resources:
        """Return the current limits of a container."""
        return self._containers[id].resources

    def config_of(self, id: str) -> ContainerConfig:
        """Return the configuration that a container was created from."""
        return self._containers[id].config

    # ---- the runtime itself

    async def status(self) -> RuntimeStatus:
        """Return the status; always ready."""
        await self._arrive("status", "")
        return RuntimeStatus("fake", "1.0", ready=True, network_ready=self.network_ready, handlers=self.handlers)

    async def close(self) -> None:
        """End all processes."""
        await self._machines.close()
        await self._lives.close()

    # ---- sandboxes

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        """Create a sandbox."""
        await self._arrive("run_sandbox", config.pod.name)
        if handler and handler not in {each.name for each in self.handlers}:
            raise RuntimeRefused(f'no runtime for "{handler}" is configured')
        if any(each.config.pod == config.pod for each in self._sandboxes.values()):
            raise RuntimeRefused(f'failed to reserve sandbox name "{config.pod.name}": it is reserved')
        sandbox_id = next(self._ids)
        labels = sandbox_labels(config.pod, config.labels)
        number = len(self._sandboxes) + 1
        addresses = () if config.security.host_network else (f"10.0.0.{number}", f"fd00::{number:x}")
        annotations = dict(config.annotations)
        shown = RuntimeSandbox(sandbox_id, config.pod, True, self._clock.now(), handler, labels, annotations, addresses)
        self._sandboxes[sandbox_id] = FakeSandbox(config, shown)
        if handler and handler == self._machine_handler:
            self._machines.made(sandbox_id)
        self._notify(config.pod.uid, sandbox_id, "started")
        return sandbox_id

    async def stop_sandbox(self, id: str) -> None:
        """Stop a sandbox and its containers."""
        await self._arrive("stop_sandbox", id)
        if id in self._sandboxes and self._sandboxes[id].shown.ready:
            self.end_sandbox(id)

    async def remove_sandbox(self, id: str) -> None:
        """Remove a sandbox and its containers."""
        await self._arrive("remove_sandbox", id)
        sandbox = self._sandboxes.pop(id, None)
        if sandbox is not None:
            for container in self._inside(id):
                self._forget(container)
            self._machines.remove(id)
            self._notify(sandbox.config.pod.uid, id, "deleted")

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[RuntimeSandbox]:
        """Return all sandboxes, or those of a pod."""
        await self._arrive("sandboxes", pod_uid or "")
        shown = [replace(each.shown, addresses=()) for each in self._sandboxes.values()]
        return [each for each in shown if pod_uid in (None, each.pod.uid)]

    async def sandbox(self, id: str) -> RuntimeSandbox:
        """Return a sandbox. Raises RuntimeObjectNotFound."""
        await self._arrive("sandbox", id)
        return self._known_sandbox(id).shown

    async def update_sandbox(self, id: str, classes: Mapping[str, str]) -> None:
        """Reject the call: like stock runtimes, this one does not support classes."""
        await self._arrive("update_sandbox", id)
        raise RuntimeRefused("unknown method UpdatePodSandboxConfig")

    # ---- containers

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container."""
        await self._arrive("create_container", config.name)
        self._known_sandbox(sandbox_id)
        image = self._image(config.image)
        if image is None:
            raise RuntimeObjectNotFound(f'failed to resolve image "{config.image}": not found')
        for other in self._inside(sandbox_id):
            if (other.config.name, other.config.attempt) == (config.name, config.attempt):
                raise RuntimeRefused(f'failed to reserve container name "{config.name}": it is reserved')
        container_id = next(self._ids)
        labels = container_labels(sandbox.pod, sandbox_id, config.name, config.labels)
        log_path = f"{sandbox.log_directory}/{config.log_path}" if config.log_path else ""
        shown = RuntimeContainer(
            container_id, sandbox_id, config.name, config.attempt, "created", config.image, image.id, labels,
            dict(config.annotations), self._clock.now(), log_path=log_path,
        )  # fmt: skip
        program = self.programs.get(config.name) or self.programs.get(config.image) or FakeProgram()
        self._containers[container_id] = FakeContainer(config, sandbox, program, shown, config.resources)
        self._notify(sandbox.pod.uid, container_id, "created")
        return container_id

    async def start_container(self, id: str) -> None:
        """Start a container."""
        await self._arrive("start_container", id)
        container = self._known(id)
        if container.shown.state != "created":
            raise RuntimeRefused(f"container is in {container.shown.state.upper()} state")
        await self._clock.sleep(container.program.starts_after)
        uid = container.sandbox.pod.uid
        if container.program.refusal:
            container.end(128, self._clock.now(), "StartError")
            container.shown = replace(container.shown, message=container.program.refusal)
            self._notify(uid, id, "stopped")
            raise RuntimeRefused(container.program.refusal)
        container.start(self._clock.now())
        if machine := self._machines.find(container.shown.sandbox_id):
            machine.begin(container.config.attempt)
        if container.too_greedy():
            container.end(KILLED, self._clock.now(), "OOMKilled")
        container.life = self._lives.begin(self._live(container), f"life of {id}")
        self._notify(uid, id, "started")

    async def stop_container(self, id: str, grace: float) -> None:
        """Stop a container, by force after `grace` seconds."""
        await self._arrive("stop_container", id)
        container = self._containers.get(id)
        if container is None or container.shown.state != "running":
            return
        code = container.program.code_on_term
        if code is None:
            await self._clock.sleep(grace)
        container.end(KILLED if code is None else code, self._clock.now())
        self._notify(container.sandbox.pod.uid, id, "stopped")

    async def remove_container(self, id: str) -> None:
        """Remove a container."""
        await self._arrive("remove_container", id)
        container = self._containers.get(id)
        if container is not None:
            self._forget(container)
            self._notify(container.sandbox.pod.uid, id, "deleted")

    async def containers(self, pod_uid: str | None = None) -> Sequence[RuntimeContainer]:
        """Return all containers, or those of a pod, without the fields that only `container` sets."""
        await self._arrive("containers", pod_uid or "")
        found = [each for each in self._containers.values() if pod_uid in (None, each.sandbox.pod.uid)]
        bare = {"started_at": 0.0, "finished_at": 0.0, "exit_code": 0, "message": "", "log_path": ""}
        listed = [replace(each.shown, **bare) for each in found]
        return [each if each.state == "running" else replace(each, reason="") for each in listed]

    async def container(self, id: str) -> RuntimeContainer:
        """Return a container. Raises RuntimeObjectNotFound."""
        await self._arrive("container", id)
        return self._known(id).shown

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        """Change the limits of a container."""
        await self._arrive("update_container", id)
        if resources is not None:
            self._known(id).resources = resources

    async def amend_spec(self, id: str, changes: JsonObject) -> None:
        """Remember the patch. Rejected once the container was started."""
        await self._arrive("amend_spec", id)
        if self._known(id).shown.state != "created":
            raise RuntimeRefused(f"container {id} was started already")
        self.amended[id] = changes

    async def reopen_log(self, id: str) -> None:
        """Recreate the log file after its rotation."""
        await self._arrive("reopen_log", id)
        log_file = self._running(id).log_file
        if log_file is not None:
            log_file.touch()

    # ---- processes and streams

    async def exec(self, id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Return the result given by the program."""
        await self._arrive("exec", id)
        program = self._with_exec(id).program
        if timeout and program.exec_takes > timeout:
            await self._clock.sleep(timeout)
            raise TimeoutError(f"timeout {timeout}s exceeded: context deadline exceeded")
        await self._clock.sleep(program.exec_takes)
        return program.exec(command)

    async def exec_stream(self, id: str, command: Sequence[str], options: StreamOptions) -> FakeStream:
        """Open a stream that delivers the program's output and exit code."""
        await self._arrive("exec_stream", id)
        return FakeStream(options, self._with_exec(id).program.exec(command))

    async def attach_stream(self, id: str, options: StreamOptions) -> CommandStream:
        """Open a silent stream: a process writes all its output at its start. For a machine, open its console."""
        await self._arrive("attach_stream", id)
        machine = self._machines.find(self._running(id).shown.sandbox_id)
        if machine is None:
            return FakeStream(options)
        return machine.console.open(ConsoleOptions(user="", session="", keyboard=options.stdin, attached=True))

    async def console_stream(self, id: str, options: ConsoleOptions) -> CommandStream:
        """Open the console of the fake guest."""
        await self._arrive("console_stream", id)
        return self.machine_of(id).console.open(options)

    async def display_stream(self, id: str, options: SessionOptions) -> CommandStream:
        """Open the display served at the test's `display_path`."""
        await self._arrive("display_stream", id)
        return await self.machine_of(id).display.open(options)

    async def power(self, id: str, action: PowerAction) -> None:
        """Record the power action."""
        await self._arrive("power", id)
        self.machine_of(id).press(action)

    # ---- usage

    async def container_usage(self) -> Sequence[RuntimeUsage]:
        """Return the memory of each running container's program."""
        await self._arrive("container_usage", "")
        running = [each for each in self._containers.values() if each.shown.state == "running"]
        return [self._usage(each.shown.id, each.program.memory) for each in running]

    async def sandbox_usage(self) -> Sequence[RuntimeUsage]:
        """Return the sum over the containers of each sandbox."""
        await self._arrive("sandbox_usage", "")
        ready = [each for each in self._sandboxes.values() if each.shown.ready]
        return [
            self._usage(each.shown.id, sum(inside.program.memory for inside in self._inside(each.shown.id)))
            for each in ready
        ]

    # ---- images

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        """Pull from the fake registry."""
        await self._arrive("pull", image)
        found = self.registry.get(image)
        if found is None:
            raise ImageRefused(f'failed to pull and unpack image "{image}": not found')
        await self._clock.sleep(found.takes / 2)
        if progress is not None:
            progress(found.size // 2, found.size)
        await self._clock.sleep(found.takes / 2)
        if found.refusal:
            raise ImageRefused(found.refusal)
        given = (credentials.username, credentials.password) if credentials else ("", "")
        if found.username and given != (found.username, found.password):
            raise ImageRefused(f'failed to pull and unpack image "{image}": authorization failed: no basic auth')
        return self.add_image(image, found)

    async def image(self, name: str, handler: str = "") -> Image | None:
        """Return a present image by name or id, or None."""
        await self._arrive("image", name)
        return self._image(name)

    async def images(self) -> Sequence[Image]:
        """Return all present images."""
        await self._arrive("images", "")
        return list(self._images.values())

    async def remove_image(self, name: str, handler: str = "") -> None:
        """Remove an image by name or id."""
        await self._arrive("remove_image", name)
        self._images = {key: each for key, each in self._images.items() if name not in (key, each.id)}

    async def image_space(self) -> tuple[str, int, int]:
        """Return the sum of the images' sizes."""
        await self._arrive("image_space", "")
        return "/", sum(each.size for each in self._images.values()), len(self._images)

    # ---- changes

    async def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        """Yield changes for ever."""
        queue: asyncio.Queue[RuntimeEvent | None] = asyncio.Queue()
        queue.put_nowait(None)
        self._listeners.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.remove(queue)

    # ---- inside

    async def _arrive(self, method: str, about: str) -> None:
        """Record a call and raise the fault prepared for it. Every call of the interface starts here."""
        self.calls.append((method, about))
        if not self._plugged:
            raise RuntimeUnreachable("the runtime does not answer")
        trouble = self._troubles.get(method)
        if trouble is None or trouble.times == 0:
            return
        trouble.times -= 1
        await self._clock.sleep(trouble.delay)
        if trouble.fault is not None:
            raise trouble.fault

    async def _live(self, container: FakeContainer) -> None:
        await live(container, self._clock)
        if container.ended.is_set():
            self._notify(container.sandbox.pod.uid, container.shown.id, "stopped")

    def _notify(self, uid: str, id: str, what: Literal["created", "started", "stopped", "deleted", ""]) -> None:
        ended = self._containers.get(id) if what == "stopped" else None
        if ended is not None and (machine := self._machines.find(ended.shown.sandbox_id)):
            machine.over()
        if self._plugged:
            for queue in self._listeners:
                queue.put_nowait(RuntimeEvent(uid, id, what))

    def _known_sandbox(self, id: str) -> FakeSandbox:
        if id not in self._sandboxes:
            raise RuntimeObjectNotFound(f'an error occurred when try to find sandbox "{id}": not found')
        return self._sandboxes[id]

    def _known(self, id: str) -> FakeContainer:
        if id not in self._containers:
            raise RuntimeObjectNotFound(f'an error occurred when try to find container "{id}": not found')
        return self._containers[id]

    def _running(self, id: str) -> FakeContainer:
        container = self._known(id)
        if container.shown.state != "running":
            raise RuntimeRefused(f"container is in CONTAINER_{container.shown.state.upper()} state")
        return container

    def _with_exec(self, id: str) -> FakeContainer:
        container = self._running(id)
        if self._machines.find(container.shown.sandbox_id) is not None:
            raise NotOffered(NO_EXEC)
        return container

    def _inside(self, sandbox_id: str) -> list[FakeContainer]:
        return [each for each in self._containers.values() if each.shown.sandbox_id == sandbox_id]

    def _forget(self, container: FakeContainer) -> None:
        container.end(KILLED, self._clock.now())
        if container.life is not None:
            container.life.cancel()
        del self._containers[container.shown.id]

    def _image(self, name: str) -> Image | None:
        return self._images.get(name) or next((each for each in self._images.values() if each.id == name), None)

    def _usage(self, id: str, memory: int) -> RuntimeUsage:
        return RuntimeUsage(id, at=self._clock.now(), cpu=0.0, memory_working_set=memory, memory_usage=memory)
