"""Supervises one running virtual machine: its process, its QMP connection, and the end of both.

The exit reason is persisted before QEMU is told to quit; the machine counts as exited when the process is gone. So an
agent that starts after one was killed in between finds the reason and completes the shutdown.

A lost QMP connection does not mean that the machine is gone: the supervisor reconnects. `condition` tells why a running
machine does not make progress (paused, or the host's disk is full). A machine stopped by a full disk is resumed once
there is room.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import msgspec

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.tasks import background, first
from tarmac.runtimes.interface.errors import RuntimeFault, RuntimeRefused, RuntimeUnreachable
from tarmac.runtimes.labels import POD_NAME, POD_UID
from tarmac.runtimes.qemu import endings
from tarmac.runtimes.qemu.blockstats import DiskTraffic, disk_traffic
from tarmac.runtimes.qemu.endings import MachineExit
from tarmac.runtimes.qemu.logtail import log_tail, panic_tail
from tarmac.runtimes.qemu.machinemetrics import MachineMetrics
from tarmac.runtimes.qemu.monitor import Monitor, connected
from tarmac.runtimes.qemu.process import Process
from tarmac.runtimes.qemu.qmp import Command, QmpEvent
from tarmac.runtimes.qemu.records import MachineFolders, MachineRecord

_QUIT_SECONDS = 2.0
_POWERDOWN_RETRIES = (1.0, 10.0)  # a booting guest ignores the power button: retry soon, then at this interval
_RECONNECT_SECONDS = 0.05
_MAX_OUTPUT = 1 << 20
_ONE_START_SECONDS = 5.0
_POLL_INTERVAL = 10.0
_MIN_FREE_BYTES = 64 << 20  # bytes that must be free before a machine stopped by a full disk is resumed
_CONDITIONS = {"paused": "MachinePaused", "io-error": "DiskFull"}

_log = log("qemu")


@dataclass(frozen=True, slots=True)
class MachineServices:
    """Dependencies shared by all machines of a node."""

    folders: MachineFolders
    clock: Clock
    metrics: MachineMetrics
    oom_kills: Callable[[str], int]
    """Return the number of processes of a cgroup that the OOM killer has killed."""
    changed: Callable[[str, str], None]
    """Called with the id of a machine and the change: `condition`, `reset`, or `stopped`."""
    finish_log: Callable[[str], Coroutine[Any, Any, None]]
    """Copies the rest of a machine's serial output into its log."""


class MachineSupervisor:
    """The supervisor of one machine, from the start of its process until the process is gone."""

    def __init__(
        self, record: MachineRecord, process: Process, user: int, cgroup: str, services: MachineServices
    ) -> None:
        self.record = record
        self.status = ""
        """Status as named by QMP; empty until the first answer."""
        self.traffic: dict[str, DiskTraffic] = {}
        """Bytes read and written by disk name, as of the last poll."""
        self.greeted = asyncio.Event()
        self.over = asyncio.Event()
        self._process = process
        self._user = user
        self._cgroup = cgroup
        self._services = services
        self._monitor: Monitor | None = None
        self._exit_recorded = asyncio.Event()
        self._last_reset = -_ONE_START_SECONDS

    @property
    def condition(self) -> str:
        """The reason why a running machine makes no progress; empty when it runs normally."""
        return _CONDITIONS.get(self.status, "")

    async def run(self) -> None:
        """Supervise the machine until its process is gone. On cancellation the machine keeps running."""
        if self.record.reason:
            self._exit_recorded.set()  # the agent that recorded the reason was killed before the process had exited
        try:
            async with background(self._talk(), f"monitor of {self.record.id}"):
                await first(self._process.gone(), self._exit_recorded.wait())
                await self._quit()
        finally:
            self._process.close()
        if not self.record.reason:
            killed = self._services.oom_kills(self._cgroup) > self.record.oom_kills
            self.note(endings.of_death(killed, self._output_tail()))
        # The log before the record: after a crash in between, the next agent finishes the log again.
        await self._services.finish_log(self.record.id)
        self.record.finished_at = self._services.clock.now()
        self._services.folders.note_machine(self.record)
        self._services.metrics.ended(self.record.reason, self.record.labels.get(POD_UID, ""))
        self.over.set()
        self._services.changed(self.record.id, "stopped")

    def note(self, ending: MachineExit) -> None:
        """Record and persist the exit reason. Only the first call has an effect."""
        if self.record.reason:
            return
        self.record.exit_code, self.record.reason, self.record.message = ending.code, ending.reason, ending.message
        self._services.folders.note_machine(self.record)
        self._exit_recorded.set()

    async def stop(self, grace: float) -> None:
        """Press the power button; kill the machine after `grace` seconds. Return when the process is gone."""
        try:
            async with asyncio.timeout(grace):
                for pause in chain(_POWERDOWN_RETRIES, repeat(_POWERDOWN_RETRIES[-1])):
                    await self._request_powerdown()
                    await first(self._exit_recorded.wait(), self._services.clock.sleep(pause))
                    if self._exit_recorded.is_set():
                        break
        except TimeoutError:
            self.note(endings.BY_FORCE)
        await self.over.wait()

    async def execute(self, command: Command, arguments: dict[str, Any] | None = None) -> Any:
        """Execute a QMP command and return its result. Raises RuntimeFault."""
        if self._monitor is None:
            raise RuntimeUnreachable("the machine's monitor does not answer at the moment")
        return await self._monitor.execute(command, arguments)

    async def _request_powerdown(self) -> None:
        """Press the power button. A paused guest cannot react, so resume it first; a booting guest may ignore it."""
        try:
            if self.status == "paused":
                await self.execute("cont")
            await self.execute("system_powerdown")
        except RuntimeFault as fault:
            _log.info("machine power-off request failed, will retry", machine=self.record.id, why=str(fault))
            await self._services.clock.sleep(_RECONNECT_SECONDS)

    async def _quit(self) -> None:
        """Make QEMU quit. If it does not within 2 s, kill the process."""
        try:
            async with asyncio.timeout(_QUIT_SECONDS):
                with suppress(RuntimeFault):
                    await self.execute("quit")
                await self._process.gone()
        except TimeoutError:
            self._process.kill()
            await self._process.gone()

    async def _talk(self) -> None:
        """Keep a QMP connection open, and reconnect when it is lost, until cancelled."""
        path = str(self._services.folders.socket(self.record, "qmp"))
        while True:
            try:
                async with connected(path, self._on_event, user=self._user) as monitor:
                    await self._verify_name(monitor)
                    self._monitor = monitor
                    await self._poll_status(monitor)
            except RuntimeFault as fault:
                if self.greeted.is_set():
                    self._services.metrics.qmp_failures += 1
                    _log.warning("machine monitor failed, reconnecting", machine=self.record.id, why=str(fault))
            finally:
                self._monitor = None
            await self._services.clock.sleep(_RECONNECT_SECONDS if not self.greeted.is_set() else 1.0)

    async def _poll_status(self, monitor: Monitor) -> None:
        while not monitor.lost.is_set():
            status = await monitor.execute("query-status")
            self._set_status(str(status["status"]))
            self.greeted.set()
            await self._truncate_log()
            await self._read_traffic(monitor)
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_INTERVAL):
                    await monitor.lost.wait()
            # After the pause, so that a machine that stops again at once is not resumed in a tight loop.
            if self.status == "io-error" and self._has_room():
                await monitor.execute("cont")

    async def _verify_name(self, monitor: Monitor) -> None:
        """Verify by its name that the monitor belongs to this machine. Raises RuntimeFault."""
        name, wanted = (await monitor.execute("query-name")).get("name"), self.record.labels.get(POD_NAME)
        if name != wanted:
            raise RuntimeRefused(f"the monitor is that of {name!r}, and not of {wanted!r}")

    async def _read_traffic(self, monitor: Monitor) -> None:
        answer = await monitor.execute("query-blockstats")
        with suppress(msgspec.ValidationError):  # a QEMU version with other fields
            self.traffic = disk_traffic(answer, self.record.disks)

    def _on_event(self, event: QmpEvent) -> None:
        """Handle a QMP event. A guest can cause any number of events, so they are counted but never stored."""
        data = event.data
        if event.name == "SHUTDOWN" and data.get("reason") == "guest-shutdown":
            self._set_status("shutdown")
        elif event.name == "GUEST_PANICKED":
            self._set_status("guest-panicked")
        elif event.name == "RESET" and data.get("guest"):
            self._reset()
        elif event.name == "BLOCK_IO_ERROR" and data.get("action") == "stop":
            self._set_status("io-error")
        elif event.name == "STOP" and self.status == "running":
            self._set_status("paused")
        elif event.name == "RESUME":
            self._set_status("running")

    def _reset(self) -> None:
        """Count a reset by the guest. Firmware resets the board repeatedly at boot: within 5 s they count as one."""
        now = self._services.clock.monotonic()
        if now - self._last_reset > _ONE_START_SECONDS:
            self._services.metrics.guest_resets += 1
            self._services.changed(self.record.id, "reset")
        self._last_reset = now

    def _set_status(self, status: str) -> None:
        before, self.status = self.condition, status
        serial = panic_tail(self._services.folders.serial(self.record)) if status == "guest-panicked" else ""
        if ending := endings.of_status(status, serial, self._output_tail()):
            self.note(ending)
        elif self.condition != before:
            self._services.changed(self.record.id, "condition")

    def _has_room(self) -> bool:
        """Tell if every writable disk of a machine stopped by a full host disk has at least 64 MiB free."""
        try:
            files = [os.statvfs(each.path) for each in self.record.disks if not each.read_only]
        except OSError:
            return False
        return all(each.f_bavail * each.f_frsize >= _MIN_FREE_BYTES for each in files)

    def _output_tail(self) -> str:
        return log_tail(self._services.folders.output_log(self.record))

    async def _truncate_log(self) -> None:
        """Truncate QEMU's log at 1 MiB: messages caused by a misbehaving guest must not fill the disk."""
        path = self._services.folders.output_log(self.record)
        with suppress(OSError):
            if path.stat().st_size > _MAX_OUTPUT:
                os.truncate(path, 0)  # QEMU opened the file for appending, so it continues at the new end
