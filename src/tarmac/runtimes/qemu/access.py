"""Access to machines: keyboard input through a pipe of the process, displays through a socket, power through QMP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.base.clock import Clock
from tarmac.runtimes.consoles import Consoles, Display
from tarmac.runtimes.interface import ConsoleOptions, PowerAction, SessionOptions, StreamOptions, WrongState
from tarmac.runtimes.interface.streams import CommandStream
from tarmac.runtimes.qemu.records import MachineFolders, MachineRecord
from tarmac.runtimes.qemu.serial import KEYS, KeyboardConnection, SerialLogs, connect_keyboard
from tarmac.runtimes.qemu.sockets import connect
from tarmac.runtimes.qemu.supervisor import MachineSupervisor


class MachineAccess:
    """Consoles and displays. A console survives restarts of the machine's process; a display belongs to one process."""

    def __init__(self, folders: MachineFolders, serials: SerialLogs, clock: Clock) -> None:
        self.consoles = Consoles(clock)
        self._folders = folders
        self._serials = serials
        self._displays: dict[str, Display] = {}

    def begin(self, record: MachineRecord, user: int) -> None:
        """Open console and display for a process that was just started or adopted."""
        source = self._serials.find(record.id)
        if source is None:
            return  # without a serial log, a console has no output to show

        async def keys(held: Callable[[bool], None], lost: Callable[[], None]) -> KeyboardConnection:
            return await connect_keyboard(self._folders.attempt(record) / "run" / KEYS, user, held, lost)

        async def screen(factory: Callable[[], asyncio.Protocol]) -> None:
            end = await connect(str(self._folders.socket(record, "vnc")), user)
            await asyncio.get_running_loop().create_unix_connection(factory, sock=end)

        self.consoles.of(record.sandbox_id).begin(record.attempt, source, keys)
        self._displays[record.id] = Display(screen)

    def over(self, record: MachineRecord) -> None:
        """Close console and display: the process has exited."""
        self.consoles.of(record.sandbox_id).over()
        if display := self._displays.pop(record.id, None):
            display.close()

    def gone(self, sandbox_id: str) -> None:
        """Remove the console of a removed sandbox."""
        self.consoles.remove(sandbox_id)

    @property
    def viewers(self) -> int:
        """Number of open display sessions."""
        return sum(len(each) for each in self._displays.values())

    async def close(self) -> None:
        """Close all sessions."""
        for each in self._displays.values():
            each.close()
        await self.consoles.close()

    # ---- sessions

    def attach(self, supervisor: MachineSupervisor, options: StreamOptions) -> CommandStream:
        """Open the console for clients that support attach only."""
        asked = ConsoleOptions(user="", session="", keyboard=options.stdin, attached=True)
        return self.consoles.of(supervisor.record.sandbox_id).open(asked)

    def console(self, sandbox_id: str, options: ConsoleOptions) -> CommandStream:
        """Open the console. Works while no process runs, too. Raises TooManyStreams."""
        return self.consoles.of(sandbox_id).open(options)

    async def display(self, supervisor: MachineSupervisor, options: SessionOptions) -> CommandStream:
        """Open the display. Raises TooManyStreams, RuntimeRefused."""
        return await self._displays[supervisor.record.id].open(options)


async def power(supervisor: MachineSupervisor, action: PowerAction) -> None:
    """Execute a power action; repeating one has no further effect. Raises WrongState, RuntimeFault."""
    paused = supervisor.status == "paused"
    if paused and action == "Reboot":
        raise WrongState("the machine is paused: resume or reset it")
    if action == "Reboot":
        await supervisor.execute("system_powerdown")  # the machine exits, and is restarted like any that exits
    elif action == "Reset":
        await supervisor.execute("system_reset")
    elif action == "Pause":
        await supervisor.execute("stop")
    if action == "Resume" or (paused and action == "Reset"):
        await supervisor.execute("cont")
