"""The consoles of all machines of a node. Without sessions, they cost nothing."""

from __future__ import annotations

import asyncio

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.consoles.console import MachineConsole

INTERVAL = 0.02  # seconds between two checks for new output, while there are sessions


class Consoles:
    """Consoles by sandbox id, which stays the same across restarts of a machine's process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks = Tasks()
        self._consoles: dict[str, MachineConsole] = {}
        self._watched = asyncio.Event()

    def of(self, key: str) -> MachineConsole:
        """Return the console of a machine; created on first use."""
        if key not in self._consoles:
            self._consoles[key] = MachineConsole(self._clock, self._tasks, self._count)
        return self._consoles[key]

    def remove(self, key: str) -> None:
        """Remove the console of a removed machine."""
        console = self._consoles.pop(key, None)
        if console is not None:
            console.close()
        self._count()

    @property
    def sessions(self) -> int:
        """Number of open console sessions."""
        return sum(len(each) for each in self._consoles.values())

    async def run(self) -> None:
        """Deliver new output to all sessions, until cancelled."""
        while True:
            await self._watched.wait()
            for each in list(self._consoles.values()):
                if len(each):
                    each.serve()
            await self._clock.sleep(INTERVAL)

    async def close(self) -> None:
        """End all sessions."""
        for key in list(self._consoles):
            self.remove(key)
        await self._tasks.close()

    def _count(self) -> None:
        if any(len(each) for each in self._consoles.values()):
            self._watched.set()
        else:
            self._watched.clear()
