"""Runs `tarmac device-plugin nvidia` for the agent, and reads its report.

The program is restarted when it ends, later each time it ends soon. It dies with the agent: a survivor of a killed
agent would compete with the next agent's for the same sockets. Devices that containers use are not affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tarmac.agent.devices.nvidia.gpureport import GpuReport, gpu_events
from tarmac.agent.devices.nvidia.report import MAX_BYTES
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.statefiles import read_state
from tarmac.client.eventrecorder import EventType

INTERVAL: Final = 5.0
"""Seconds between two readings of the report."""
_MIN_DELAY, _MAX_DELAY = 1.0, 60.0
_RESET_AFTER: Final = 60.0  # a program that ran this long is restarted without a longer delay
_STOP_TIMEOUT: Final = 5.0
_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None)
_log = log("nvidia")

Tell = Callable[[EventType, str, str], None]
"""Emits an event of the Node: type, reason and message."""


def command(folder: Path, report: Path, names: Mapping[str, str]) -> list[str]:
    """Return the program's command line."""
    flags: dict[str, Path | str] = {"device-plugin-dir": folder, "report": report}
    if names:
        flags["names"] = ",".join(f"{model}={name}" for model, name in names.items())
    program = [sys.executable, "-m", "tarmac.apps.deviceplugin", "nvidia"]
    return [*program, *(f"--{name}={value}" for name, value in flags.items())]


class NvidiaSupervisor:
    """The agent's side of the plugin. `changed` is called after each new report."""

    def __init__(self, arguments: Sequence[str], report: Path, clock: Clock, tell: Tell) -> None:
        self._arguments = arguments
        self._path = report
        self._clock = clock
        self._tell = tell
        self._stamp: tuple[int, int] | None = None
        self.report = GpuReport()

    async def run(self) -> None:
        """Keep the program running until cancelled, then stop it."""
        delay = _MIN_DELAY
        while True:
            began = self._clock.monotonic()
            code = await self._once()
            if self._clock.monotonic() - began >= _RESET_AFTER:
                delay = _MIN_DELAY
            _log.warning("NVIDIA device plugin ended, restarting", code=code, seconds=delay)
            await self._clock.sleep(delay)
            delay = min(delay * 2, _MAX_DELAY)

    async def watch(self) -> None:
        """Read the report whenever it is new, until cancelled."""
        while True:
            self.read()
            await self._clock.sleep(INTERVAL)

    def read(self) -> None:
        """Read the report if it is new, and emit events for changes."""
        try:
            found = os.stat(self._path)
            stamp = (found.st_ino, found.st_mtime_ns)
            if stamp == self._stamp:
                return
            report = msgspec.json.decode(read_state(self._path, MAX_BYTES), type=GpuReport)
        except (OSError, UnicodeError, msgspec.MsgspecError):
            return  # not written yet; the next one replaces it
        # Only after decoding: a report that was read halfway is read again.
        before, self.report, self._stamp = self.report, report, stamp
        for event in gpu_events(before, report):
            self._tell(*event)

    async def _once(self) -> int:
        """Run the program once; return its exit code."""
        parent = os.getpid()
        process = await asyncio.create_subprocess_exec(
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            # A session of its own: Ctrl-C in the agent's terminal is for the agent, which ends the program itself.
            start_new_session=True,
            # Otherwise a plugin outlives an agent that is killed, and competes with that of the next one.
            preexec_fn=lambda: _die_with(parent),
        )
        try:
            return await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                # The agent is stopping: a driver that hangs must not hold it up.
                await asyncio.wait_for(process.wait(), _STOP_TIMEOUT)
            except TimeoutError:
                process.kill()
                await process.wait()
            raise


def _die_with(parent: int) -> None:
    """Runs in the child: make the kernel end it with the agent, which may have died before the call."""
    # The kernel sends it when the forking thread ends, not the process: only the event loop's thread may fork here.
    _libc.prctl(_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
