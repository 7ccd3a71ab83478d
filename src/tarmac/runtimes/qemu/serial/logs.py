"""Follows the serial ports of all machines of a node with one timer: ten silent machines cost ten system calls.

The driver calls `follow` when a machine starts or is adopted, `finish` when its process has exited, `reopen` when its
log was rotated, and `release` when the container is removed.
"""

from __future__ import annotations

import asyncio

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.runtimes.interface.errors import RuntimeObjectNotFound, RuntimeRefused
from tarmac.runtimes.qemu.serial.log import SerialFiles, SerialLog

INTERVAL = 0.1
_AT_A_TIME = 8  # chunks per machine and round, so that a flood from one machine does not delay the rest

_log = log("serial")


class SerialLogs:
    """The followed serial ports, by container id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logs: dict[str, SerialLog] = {}
        self._troubled: set[str] = set()  # ids with a failure already logged

    def follow(self, id: str, files: SerialFiles) -> SerialLog:
        """Start to follow, from the persisted position if there is one. Raises OSError."""
        self.release(id)
        made = self._logs[id] = SerialLog(files, self._clock)
        return made

    def find(self, id: str) -> SerialLog | None:
        """Return the serial log of a container, while it is followed."""
        return self._logs.get(id)

    async def finish(self, id: str) -> None:
        """Write the rest of the output of an exited process. The file stays readable until `release`."""
        found = self._logs.get(id)
        try:
            while found is not None and found.finish():
                await self._clock.sleep(0)  # lets other tasks run
        except OSError as error:
            _log.warning("serial log incomplete, last output cannot be written", container=id, why=str(error))

    def reopen(self, id: str) -> None:
        """Reopen the log of a container after its rotation. Raises RuntimeFault."""
        found = self._logs.get(id)
        if found is None:
            raise RuntimeObjectNotFound(f"no machine {id} runs")
        try:
            found.reopen()
        except OSError as error:
            raise RuntimeRefused(f"the log of {id} cannot be opened: {error}") from error

    def release(self, id: str) -> None:
        """Close the files of a container."""
        self._troubled.discard(id)
        found = self._logs.pop(id, None)
        if found is not None:
            found.close()

    async def run(self) -> None:
        """Poll all serial ports until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL)
            await self.poll()

    async def poll(self) -> None:
        """Copy new output of all machines."""
        for key, each in list(self._logs.items()):
            for _ in range(_AT_A_TIME):
                # May have been released while this task was suspended.
                if self._logs.get(key) is not each or not self._poll_one(key, each):
                    break
                await asyncio.sleep(0)

    def _poll_one(self, id: str, each: SerialLog) -> bool:
        try:
            more = each.poll()
        except OSError as error:  # a full disk: no output is lost, it stays in the raw file
            if id not in self._troubled:
                self._troubled.add(id)
                _log.warning("serial log write failed, will retry", container=id, why=str(error))
            return False
        self._troubled.discard(id)
        return more
