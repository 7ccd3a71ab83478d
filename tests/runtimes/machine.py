"""Fixture of the contract suite: a runtime, and instructions for containers that every runtime understands.

A script controls the simulated runtime, a shell command a real one. The fixture removes the test's sandboxes
afterwards, by their ids.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cpumanager.placement import CpuPlacer
from tarmac.agent.cpumanager.runtime import PinningRuntime
from tarmac.base.clock import SystemClock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.fake import FakeProgram, FakeRuntime
from tarmac.runtimes.interface import (
    ContainerConfig,
    Device,
    ExecResult,
    Handler,
    PodIdentity,
    Runtime,
    RuntimeContainer,
    SandboxConfig,
)
from tarmac.runtimes.qemu.qemuruntime import QemuRuntime
from tarmac.runtimes.routed import RoutedDriver, RoutedRuntime
from tests.agent.cpumanager.kernel import Kernel
from tests.agent.cpumanager.scene import CPUS, manager
from tests.support.containerd import BUSYBOX, ContainerdNode, no_network
from tests.support.qemunode import QemuNode

_WAITS = "trap 'exit 7' TERM; echo hello; sleep 3600 & wait"


class Machine:
    """A runtime under test."""

    runtime: Runtime
    handler: str
    real: bool
    lacks: frozenset[str] = frozenset()
    """Features that no sandbox of it has: `exec`, `codes` of its own choice at the end, a `specification`."""
    asked_code = 7
    """The exit code of a program that ends on SIGTERM."""

    def __init__(self) -> None:
        self._sandboxes: list[str] = []

    def sandbox(self, **more: Any) -> SandboxConfig:
        """A pod of its own, without a network unless requested."""
        raise NotImplementedError

    def behaves(self, name: str, program: FakeProgram, command: str) -> ContainerConfig:
        """A container that behaves as the program says; the shell command does the same."""
        raise NotImplementedError

    def needs(self, what: str) -> None:
        """Require a feature; the test skips on a runtime that declares to lack it."""
        if what in self.lacks:
            pytest.skip(f"declared: {type(self).__name__} has no {what}")

    def waits(self, name: str = "main") -> ContainerConfig:
        """Waits for SIGTERM; then it exits with 7."""
        return self.behaves(name, FakeProgram(code_on_term=7, exec=_echo, output=("hello",)), _WAITS)

    def deaf(self) -> ContainerConfig:
        """Ignores SIGTERM, once it has written its line."""
        program = FakeProgram(code_on_term=None, output=("deaf",))
        return self.behaves("deaf", program, "trap '' TERM; echo deaf; while :; do sleep 1; done")

    def exits(self, code: int) -> ContainerConfig:
        """Exits at once."""
        return self.behaves("short", FakeProgram(runs_for=0, exit_code=code), f"exit {code}")

    def cannot_start(self) -> ContainerConfig:
        """A program that the image does not have."""
        return replace(
            self.behaves("absent", FakeProgram(refusal="exec: no such file or directory"), ""),
            command=("/no/such/program",),
        )

    def slow_exec(self) -> ContainerConfig:
        """A container in which commands take ten seconds."""
        return self.behaves("slow", FakeProgram(exec_takes=10), _WAITS)

    async def make(self, config: SandboxConfig) -> str:
        """Create a sandbox that is removed after the test."""
        sandbox_id = await self.runtime.run_sandbox(config, self.handler)
        self._sandboxes.append(sandbox_id)
        return sandbox_id

    async def run(self, config: ContainerConfig, **sandbox: Any) -> Running:
        """Start a container in a sandbox of its own."""
        pod = self.sandbox(**sandbox)
        return await self.run_in(await self.make(pod), pod, config)

    async def run_in(self, sandbox_id: str, pod: SandboxConfig, config: ContainerConfig) -> Running:
        """Start a container in an existing sandbox."""
        container_id = await self.runtime.create_container(sandbox_id, config, pod)
        await self.runtime.start_container(container_id)
        return Running(self.runtime, pod, sandbox_id, container_id)

    async def clean(self) -> None:
        """Remove the test's sandboxes."""
        for sandbox_id in self._sandboxes:
            await self.runtime.stop_sandbox(sandbox_id)
            await self.runtime.remove_sandbox(sandbox_id)
        await self.runtime.close()


@dataclass
class Running:
    """A started container, and its sandbox."""

    runtime: Runtime
    pod: SandboxConfig
    sandbox_id: str
    id: str

    async def now(self) -> RuntimeContainer:
        """Return its current state."""
        return await self.runtime.container(self.id)

    async def log(self, text: str, patience: float = 20) -> str:
        """Return its log, once it contains this."""
        path = Path((await self.now()).log_path)
        async with asyncio.timeout(patience):
            while text not in path.read_text():
                await asyncio.sleep(0.02)
        return path.read_text()

    async def says(self, *command: str) -> str:
        """Return the output of a command inside; it must succeed."""
        result = await self.runtime.exec(self.id, command, 20)
        assert result.exit_code == 0, result
        return result.stdout.decode().strip()


class FakeMachine(Machine):
    """The simulated runtime."""

    handler = "runc"
    real = False

    def __init__(self, folder: Path, fake: FakeRuntime | None = None) -> None:
        super().__init__()
        self._folder = folder
        self.fake = fake or FakeRuntime()
        self.fake.add_image(BUSYBOX)
        self.runtime = self.fake

    def sandbox(self, **more: Any) -> SandboxConfig:
        uid = str(uuid.uuid4())
        (self._folder / uid).mkdir()
        pod = PodIdentity("default", f"pod-{uid[:8]}", uid)
        settings: dict[str, Any] = {"hostname": pod.name, "cgroup_parent": f"/{uid}"}
        settings["log_directory"] = str(self._folder / uid)
        return SandboxConfig(pod, **{**settings, **more})

    def behaves(self, name: str, program: FakeProgram, command: str) -> ContainerConfig:
        self.fake.programs[name] = program
        return ContainerConfig(name, 0, BUSYBOX, BUSYBOX, command=("sh", "-c", command), log_path=f"{name}.log")


class RoutedMachine(FakeMachine):
    """Two simulated runtimes behind one interface: the second has the handler `vm`."""

    def __init__(self, folder: Path, handler: str) -> None:
        super().__init__(folder)
        self.handler = handler
        self.other = FakeRuntime(handlers=(Handler("vm", own_kernel=True),), id_prefix="vm-")
        self.other.add_image(BUSYBOX)
        self.runtime = RoutedRuntime(self.fake, RoutedDriver(self.other, frozenset({"vm"}), "vm-"))

    def behaves(self, name: str, program: FakeProgram, command: str) -> ContainerConfig:
        self.other.programs[name] = program
        return super().behaves(name, program, command)


class PinnedMachine(FakeMachine):
    """A simulated runtime on a node with CPUs for exclusive use."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        clock, kernel, cpus = SystemClock(), Kernel(CPUS), manager(folder)
        placement = CpuPlacer(cpus, kernel, KubePods(kernel, "", clock), self.fake, clock, 10)
        self.runtime = PinningRuntime(self.fake, cpus, placement)


class RealMachine(Machine):
    """containerd with one of its handlers."""

    real = True

    def __init__(self, node: ContainerdNode, handler: str) -> None:
        from tarmac.runtimes.cri import CriRuntime

        super().__init__()
        self.node = node
        self.handler = handler
        self.runtime = CriRuntime(node.endpoint)

    def sandbox(self, **more: Any) -> SandboxConfig:
        settings: dict[str, Any] = {"security": no_network(), **more}
        return self.node.sandbox(**settings)

    def behaves(self, name: str, program: FakeProgram, command: str) -> ContainerConfig:
        return self.node.container(name, "sh", "-c", command, security=no_network())


class QemuMachine(Machine):
    """Virtual machines, each with a guest of a few bytes."""

    handler = "vm"
    real = True
    lacks = frozenset({"exec", "codes", "specification"})
    asked_code = 0

    def __init__(self, node: QemuNode, runtime: QemuRuntime) -> None:
        super().__init__()
        self.node = node
        self.runtime = self.qemu = runtime
        self._tasks = Tasks()
        self._tasks.begin(runtime.run(), "serial ports")

    def sandbox(self, **more: Any) -> SandboxConfig:
        return self.node.sandbox(**more)

    def behaves(self, name: str, program: FakeProgram, command: str) -> ContainerConfig:
        if program.refusal:
            return self.node.booting(Device("/dev/disk/by-id/datumcloud-boot", "/no/such/disk"), name=name)
        says = next(iter(program.output), "")
        if program.runs_for is not None:
            return self.node.machine("ends", says, name)
        return self.node.machine("deaf" if program.code_on_term is None else "waits", says, name)

    def cannot_start(self) -> ContainerConfig:
        return self.behaves("absent", FakeProgram(refusal="no such disk"), "")

    async def restart(self) -> QemuRuntime:
        """The agent ends, and another one starts; machines keep running."""
        await self._tasks.close()
        await self.qemu.close()
        self.runtime = self.qemu = await self.node.runtime()
        self._tasks.begin(self.qemu.run(), "serial ports")
        return self.qemu

    async def clean(self) -> None:
        await super().clean()
        await self._tasks.close()


def _echo(command: Any) -> ExecResult:
    """The simulated shell: it only knows `sh -c 'echo WORD; echo WORD >&2; exit CODE'`."""
    words = " ".join(command).replace(";", " ").split()
    said = [word for before, word in itertools.pairwise(words) if before == "echo"]
    code = int(words[-1]) if "exit" in words else 0
    return ExecResult(f"{said[0]}\n".encode(), f"{said[1]}\n".encode() if len(said) > 1 else b"", code)
