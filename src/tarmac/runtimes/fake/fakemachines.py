"""Fake virtual machines: guests that echo keyboard input and write output on a test's request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.consoles import Display, MachineConsole
from tarmac.runtimes.interface import NotOffered, PowerAction, WrongState
from tarmac.runtimes.interface.machineaccess import NOT_A_MACHINE


class FakeGuest:
    """One process of a machine. Implements `SerialSource` and `Keys`; echoes input unless a test turns that off."""

    def __init__(self, console: MachineConsole) -> None:
        self.written = bytearray()
        self.typed = b""
        self.echoes = True
        self._kept_from = 0
        self._console = console

    @property
    def end(self) -> int:
        return len(self.written)

    @property
    def kept_from(self) -> int:
        return self._kept_from

    def read(self, offset: int, most: int) -> bytes:
        return bytes(self.written[offset : offset + most])

    def write(self, data: bytes) -> None:
        """Write output as the guest."""
        self.written += data
        self._console.serve()

    def forget(self, before: int) -> None:
        """Discard output before this offset."""
        self._kept_from = before

    def press(self, keys: bytes) -> None:
        self.typed += keys
        if self.echoes:
            self.write(keys.replace(b"\r", b"\r\n"))

    def close(self) -> None:
        """Ignored: there is no connection to close."""

    async def connect(self, held: Callable[[bool], None], lost: Callable[[], None]) -> FakeGuest:
        """Return this guest as the console's keyboard connection."""
        return self


class FakeMachine:
    """A machine across all its processes. A test sets the address of its VNC server, if it has one."""

    def __init__(self, clock: Clock, tasks: Tasks) -> None:
        self.console = MachineConsole(clock, tasks)
        self.display = Display(self._connect)
        self.display_path = ""
        self.guest = FakeGuest(self.console)
        self.paused = False
        self.pressed: list[PowerAction] = []

    def begin(self, attempt: int) -> None:
        """Start a process of the machine."""
        self.guest, self.paused = FakeGuest(self.console), False
        self.console.begin(attempt, self.guest, self.guest.connect)

    def over(self) -> None:
        """End the process."""
        self.console.over()

    def gone(self) -> None:
        """Remove the machine."""
        self.console.close()
        self.display.close()

    def press(self, action: PowerAction) -> None:
        """Execute a power action. Raises WrongState."""
        if self.paused and action == "Reboot":
            raise WrongState("the machine is paused: resume or reset it")
        self.pressed.append(action)
        self.paused = action == "Pause"

    async def _connect(self, factory: Callable[[], asyncio.Protocol]) -> None:
        await asyncio.get_running_loop().create_unix_connection(factory, self.display_path)


class FakeMachines:
    """The machines of one runtime, by sandbox id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks = Tasks()
        self._machines: dict[str, FakeMachine] = {}

    def made(self, sandbox_id: str) -> None:
        self._machines[sandbox_id] = FakeMachine(self._clock, self._tasks)

    def find(self, sandbox_id: str) -> FakeMachine | None:
        return self._machines.get(sandbox_id)

    def known(self, sandbox_id: str) -> FakeMachine:
        """Return the machine of a sandbox. Raises NotOffered if the sandbox is no machine."""
        found = self._machines.get(sandbox_id)
        if found is None:
            raise NotOffered(NOT_A_MACHINE)
        return found

    def remove(self, sandbox_id: str) -> None:
        found = self._machines.pop(sandbox_id, None)
        if found is not None:
            found.gone()

    async def close(self) -> None:
        for each in list(self._machines):
            self.remove(each)
        await self._tasks.close()
