"""The serial ports of all machines of a node, followed by one timer: ten silent machines cost ten calls to the kernel.

The driver calls `follow` when a machine starts or is adopted, `finish` when its process is over, `reopen` when its log
was set aside, and `release` when the container is removed.
"""

from __future__ import annotations

import asyncio

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.runtimes.interface.errors import NotFound, RuntimeRefused
from tarmac.runtimes.qemu.serial.log import SerialFiles, SerialLog

INTERVAL = 0.1
_AT_A_TIME = 8  # pieces of one machine in one round: one that floods does not keep the others waiting

_log = log("serial")


class SerialLogs:
    """By id of the container."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logs: dict[str, SerialLog] = {}
        self._troubled: set[str] = set()  # those of which it has been told

    def follow(self, id: str, files: SerialFiles) -> SerialLog:
        """Begin, or go on where it was left. Raises OSError."""
        self.release(id)
        made = self._logs[id] = SerialLog(files, self._clock)
        return made

    def find(self, id: str) -> SerialLog | None:
        """The one of this container, while it is followed."""
        return self._logs.get(id)

    async def finish(self, id: str) -> None:
        """Its process is over: write the rest of what it said. What follows it stays readable until `release`."""
        found = self._logs.get(id)
        try:
            while found is not None and found.finish():
                await self._clock.sleep(0)  # others have their turn
        except OSError as error:
            _log.warning("the end of a serial log is missing", container=id, why=str(error))

    def reopen(self, id: str) -> None:
        """Its log was moved away. Raises RuntimeFault."""
        found = self._logs.get(id)
        if found is None:
            raise NotFound(f"no machine {id} runs")
        try:
            found.reopen()
        except OSError as error:
            raise RuntimeRefused(f"the log of {id} cannot be opened: {error}") from error

    def release(self, id: str) -> None:
        """Let go of its files."""
        self._troubled.discard(id)
        found = self._logs.pop(id, None)
        if found is not None:
            found.close()

    async def run(self) -> None:
        """Follow all of them until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL)
            await self.look()

    async def look(self) -> None:
        """Take up what is new, everywhere."""
        for key, each in list(self._logs.items()):
            for _ in range(_AT_A_TIME):
                # It may have been released while others had their turn.
                if self._logs.get(key) is not each or not self._looked(key, each):
                    break
                await asyncio.sleep(0)

    def _looked(self, id: str, each: SerialLog) -> bool:
        try:
            more = each.look()
        except OSError as error:  # a full disk: nothing is lost, the file waits
            if id not in self._troubled:
                self._troubled.add(id)
                _log.warning("a serial log is not written", container=id, why=str(error))
            return False
        self._troubled.discard(id)
        return more
