"""The ways into machines: keys by a pipe of the process, displays by a socket, buttons over the monitor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.base.clock import Clock
from tarmac.runtimes.consoles import Consoles, Display
from tarmac.runtimes.interface import ConsoleOptions, PowerAction, SessionOptions, StreamOptions, WrongState
from tarmac.runtimes.interface.streams import CommandStream
from tarmac.runtimes.qemu.life import Life
from tarmac.runtimes.qemu.records import Folders, MachineRecord
from tarmac.runtimes.qemu.serial import KEYS, KeyboardConnection, SerialLogs, connect_keyboard
from tarmac.runtimes.qemu.sockets import connect


class WaysIn:
    """Consoles stay over the processes of a machine; a display is of one process."""

    def __init__(self, folders: Folders, serials: SerialLogs, clock: Clock) -> None:
        self.consoles = Consoles(clock)
        self._folders = folders
        self._serials = serials
        self._displays: dict[str, Display] = {}

    def begin(self, record: MachineRecord, user: int) -> None:
        """A process runs, from now on or since before."""
        source = self._serials.find(record.id)
        if source is None:
            return  # nobody can be shown what is not followed

        async def keys(held: Callable[[bool], None], lost: Callable[[], None]) -> KeyboardConnection:
            return await connect_keyboard(self._folders.attempt(record) / "run" / KEYS, user, held, lost)

        async def screen(factory: Callable[[], asyncio.Protocol]) -> None:
            end = await connect(str(self._folders.socket(record, "vnc")), user)
            await asyncio.get_running_loop().create_unix_connection(factory, sock=end)

        self.consoles.of(record.sandbox_id).begin(record.attempt, source, keys)
        self._displays[record.id] = Display(screen)

    def over(self, record: MachineRecord) -> None:
        """The process has ended."""
        self.consoles.of(record.sandbox_id).over()
        if display := self._displays.pop(record.id, None):
            display.close()

    def gone(self, sandbox_id: str) -> None:
        """The sandbox is removed."""
        self.consoles.remove(sandbox_id)

    @property
    def viewers(self) -> int:
        """How many people look at screens."""
        return sum(len(each) for each in self._displays.values())

    async def close(self) -> None:
        """End all sessions."""
        for each in self._displays.values():
            each.close()
        await self.consoles.close()

    # ---- for those who come

    def attach(self, life: Life, options: StreamOptions) -> CommandStream:
        """For clients that know attach only."""
        asked = ConsoleOptions(user="", session="", keyboard=options.stdin, attached=True)
        return self.consoles.of(life.record.sandbox_id).open(asked)

    def console(self, sandbox_id: str, options: ConsoleOptions) -> CommandStream:
        """Also between two processes. Raises TooManyStreams."""
        return self.consoles.of(sandbox_id).open(options)

    async def display(self, life: Life, options: SessionOptions) -> CommandStream:
        """Raises TooManyStreams, RuntimeRefused."""
        return await self._displays[life.record.id].open(options)


async def press(life: Life, action: PowerAction) -> None:
    """A button; the same twice is as once. Raises WrongState, RuntimeFault."""
    paused = life.status == "paused"
    if paused and action == "Reboot":
        raise WrongState("the machine is paused: resume or reset it")
    if action == "Reboot":
        await life.execute("system_powerdown")  # it ends, and is started again as any that ends
    elif action == "Reset":
        await life.execute("system_reset")
    elif action == "Pause":
        await life.execute("stop")
    if action == "Resume" or (paused and action == "Reset"):
        await life.execute("cont")
