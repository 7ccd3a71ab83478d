"""What the imaginary runtime has: sandboxes, containers and their processes, and the states they go through."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

from tarmac.base.clock import Clock, rfc3339_micro
from tarmac.runtimes.fake.programs import Program
from tarmac.runtimes.interface import Container, ContainerConfig, Resources, Sandbox, SandboxConfig

KILLED = 137


@dataclass(slots=True)
class FakeSandbox:
    """What it was asked to be, and how it shows itself."""

    config: SandboxConfig
    shown: Sandbox


@dataclass(slots=True)
class FakeContainer:
    """A container and its process. `ended` is set once the process is no more."""

    config: ContainerConfig
    sandbox: SandboxConfig
    program: Program
    shown: Container
    resources: Resources
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    life: asyncio.Task[None] | None = None

    @property
    def log_file(self) -> Path | None:
        """Where its output goes."""
        path = self.config.log_path
        return Path(self.sandbox.log_directory) / path if path else None

    def start(self, now: float) -> None:
        """The process is there."""
        self.shown = replace(self.shown, state="running", started_at=now)
        self.write_log(now)

    def end(self, code: int, now: float, reason: str = "") -> None:
        """The process is no more; only its first end counts."""
        if self.shown.state == "exited":
            return
        reason = reason or ("Completed" if code == 0 else "Error")
        self.shown = replace(self.shown, state="exited", finished_at=now, exit_code=code, reason=reason)
        self.ended.set()

    def write_log(self, now: float) -> None:
        """Its output, as runtimes write it; the file exists even if it says nothing."""
        if self.log_file is None or not self.log_file.parent.is_dir():
            return
        with self.log_file.open("a") as file:
            file.writelines(f"{rfc3339_micro(now)} stdout F {line}\n" for line in self.program.output)

    def too_greedy(self) -> bool:
        """Whether it takes more memory than it may."""
        return 0 < self.resources.memory_limit < self.program.memory


async def live(container: FakeContainer, clock: Clock) -> None:
    """Wait until the process ends by itself."""
    if container.program.runs_for is not None:
        await clock.sleep(container.program.runs_for)
        container.end(container.program.exit_code, clock.now())
