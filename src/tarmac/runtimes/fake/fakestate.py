"""State of the fake runtime: sandboxes, containers and their processes, and their transitions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

from tarmac.base.clock import Clock, rfc3339_micro
from tarmac.runtimes.fake.programs import FakeProgram
from tarmac.runtimes.interface import ContainerConfig, Resources, RuntimeContainer, RuntimeSandbox, SandboxConfig

KILLED = 137


@dataclass(slots=True)
class FakeSandbox:
    """A sandbox: its configuration and the state shown to callers."""

    config: SandboxConfig
    shown: RuntimeSandbox


@dataclass(slots=True)
class FakeContainer:
    """A container and its process. `ended` is set once the process has exited."""

    config: ContainerConfig
    sandbox: SandboxConfig
    program: FakeProgram
    shown: RuntimeContainer
    resources: Resources
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    life: asyncio.Task[None] | None = None

    @property
    def log_file(self) -> Path | None:
        """The file that its output goes to."""
        path = self.config.log_path
        return Path(self.sandbox.log_directory) / path if path else None

    def start(self, now: float) -> None:
        """Start the process."""
        self.shown = replace(self.shown, state="running", started_at=now)
        self.write_log(now)

    def end(self, code: int, now: float, reason: str = "") -> None:
        """End the process; only the first end counts."""
        if self.shown.state == "exited":
            return
        reason = reason or ("Completed" if code == 0 else "Error")
        self.shown = replace(self.shown, state="exited", finished_at=now, exit_code=code, reason=reason)
        self.ended.set()

    def write_log(self, now: float) -> None:
        """Write the output in CRI's format; the file is created even without output."""
        if self.log_file is None or not self.log_file.parent.is_dir():
            return
        with self.log_file.open("a") as file:
            file.writelines(f"{rfc3339_micro(now)} stdout F {line}\n" for line in self.program.output)

    def too_greedy(self) -> bool:
        """Tell if the program uses more memory than its limit."""
        return 0 < self.resources.memory_limit < self.program.memory


async def live(container: FakeContainer, clock: Clock) -> None:
    """Wait until the process exits by itself."""
    if container.program.runs_for is not None:
        await clock.sleep(container.program.runs_for)
        container.end(container.program.exit_code, clock.now())
