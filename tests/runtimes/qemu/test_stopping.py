"""A machine has its whole grace period to shut down, and none beyond it; in virtual time, with a fake process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tarmac.api.compute.validation.grace import MAX_GRACE
from tarmac.runtimes.interface.errors import RuntimeRefused
from tarmac.runtimes.qemu.process import Process
from tarmac.runtimes.qemu.qmp import Command
from tarmac.runtimes.qemu.records import MachineRecord
from tarmac.runtimes.qemu.supervisor import MachineServices, MachineSupervisor
from tarmac.sim.loop import VirtualLoop, run


class FakeProcess:
    """QEMU: it ends a while after the power button was pressed, or on the command quit."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def gone(self) -> None:
        await self.ended.wait()

    def kill(self) -> None:
        self.ended.set()

    def close(self) -> None:
        pass


class FakeServices:
    """Services of a node without state."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.folders = self.clock = self.metrics = self
        self._loop = loop

    def now(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def output_log(self, record: MachineRecord) -> Path:
        return Path("/dev/null")

    def note_machine(self, record: MachineRecord) -> None: ...

    def ended(self, reason: str, uid: str) -> None: ...

    def changed(self, id: str, change: str) -> None: ...

    def oom_kills(self, cgroup: str) -> int:
        return 0

    async def finish_log(self, id: str) -> None: ...


class Guest(MachineSupervisor):
    """A machine whose system needs `takes` seconds from the first press of the power button."""

    def __init__(self, loop: VirtualLoop, takes: float) -> None:
        self.process, self.takes, self.presses = FakeProcess(), takes, 0
        record = MachineRecord(
            id="m", sandbox_id="s", name="machine", attempt=0, image="i", image_id="i", uuid="u", created_at=0.0
        )
        services = cast("MachineServices", FakeServices(loop))
        super().__init__(record, cast("Process", self.process), 0, "/", services)

    async def _talk(self) -> None:
        await asyncio.Event().wait()

    async def execute(self, command: Command, arguments: dict[str, Any] | None = None) -> Any:
        if command == "system_powerdown":
            self.presses += 1
            if self.presses == 1:
                asyncio.get_running_loop().call_later(self.takes, self.process.ended.set)
        elif command == "quit":
            raise RuntimeRefused("it does not listen")


def stopped(takes: float, grace: float) -> tuple[float, str, int]:
    """Seconds until the machine is gone, the reason, and how often the power button was pressed."""

    async def story(loop: VirtualLoop) -> tuple[float, str, int]:
        guest = Guest(loop, takes)
        async with asyncio.TaskGroup() as group:
            group.create_task(guest.run())
            await asyncio.sleep(0)
            began = loop.time()
            await guest.stop(grace)
            return loop.time() - began, guest.record.reason, guest.presses

    return run(story)


@pytest.mark.parametrize("takes", [50.0, MAX_GRACE - 5.0])
def test_a_machine_that_shuts_down_slowly_is_left_alone_for_its_grace_period(takes: float) -> None:
    after, reason, presses = stopped(takes, MAX_GRACE)
    assert after == pytest.approx(takes)
    assert reason != "Killed"
    assert presses >= takes // 10, "a system that still boots ignores the first presses"


def test_a_machine_that_ignores_the_power_button_is_killed_after_ten_minutes() -> None:
    after, reason, _ = stopped(3600.0, MAX_GRACE)
    assert after == pytest.approx(MAX_GRACE + 2)
    assert reason == "Killed"
