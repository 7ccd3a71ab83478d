"""Consoles of simulated virtual machines: a boot log by the time since the start, and a shell behind a login prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.consoles import MachineConsole
from tarmac.runtimes.interface import (
    CommandStream,
    ConsoleOptions,
    NotOffered,
    PowerAction,
    RuntimeObjectNotFound,
    SessionOptions,
    WrongState,
)
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.pod import PodStage, SimulatedPod
from tarmac.sim.sessions.instance import RELEASE
from tarmac.sim.sessions.simulatedstreams import Work
from tarmac.sim.sessions.terminal import Terminal

KEPT = 64 * 1024
"""Bytes of output that a console keeps."""

_BOOT = (
    f"Linux version {RELEASE} (simulated by Tarmac)",
    "Command line: console=ttyS0 root=/dev/vda1",
    "virtio_net virtio0: eth0 up",
    "EXT4-fs (vda1): mounted filesystem",
    "systemd[1]: Reached target multi-user.target",
)
_POLL = 1.0


def boot_lines(booted: bool) -> list[str]:
    """Return the lines of a boot log; all of them once it has booted."""
    shown = _BOOT if booted else _BOOT[:2]
    return [f"[{index * 1.6:12.6f}] {text}" for index, text in enumerate(shown)]


class _Guest:
    """The process of a machine. Implements `SerialSource` and `GuestKeyboard`."""

    def __init__(self, console: MachineConsole) -> None:
        self._console = console
        self._written = bytearray()
        self._dropped = 0
        self.terminal = Terminal(True, lambda data, _error: self.write(data))

    @property
    def end(self) -> int:
        return self._dropped + len(self._written)

    @property
    def kept_from(self) -> int:
        return self._dropped

    def read(self, offset: int, most: int) -> bytes:
        begin = offset - self._dropped
        return bytes(self._written[begin : begin + most])

    def write(self, data: bytes) -> None:
        """Write output of the guest."""
        self._written += data
        if (excess := len(self._written) - KEPT) > 0:
            del self._written[:excess]
            self._dropped += excess
        self._console.serve()

    def press(self, keys: bytes) -> None:
        self.terminal.feed(keys)

    def close(self) -> None:
        """Ignored: there is no connection to close."""

    async def connect(self, held: Callable[[bool], None], lost: Callable[[], None]) -> _Guest:
        return self


class SimulatedMachines:
    """Implements `runtimes.interface.Machines` by uid of the pod.

    A console exists while sessions are open, and starts with the boot log. `login` returns the work of the shell behind
    the prompt.
    """

    def __init__(
        self, fleet: SimulatedNodes, clock: Clock, tasks: Tasks, login: Callable[[str], Awaitable[Work]]
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self.tasks = tasks
        self._login = login
        self._consoles: dict[str, MachineConsole] = {}
        self._guests: dict[str, asyncio.Task[None]] = {}

    async def console_stream(self, id: str, options: ConsoleOptions) -> CommandStream:
        """Open the serial console. Raises TooManyStreams and RuntimeObjectNotFound."""
        self._pod(id)
        console = self._consoles.get(id)
        if console is None:
            console = self._consoles[id] = MachineConsole(self._clock, self.tasks, lambda: self._changed(id))
        return console.open(options)

    async def display_stream(self, id: str, options: SessionOptions) -> CommandStream:
        """Refuse: there is no screen."""
        raise NotOffered("a simulated machine has no screen: use `tarmac console`, or a real node")

    async def power(self, id: str, action: PowerAction) -> None:
        """Boot again. Raises NotOffered for pauses, WrongState while it does not run."""
        if action not in ("Reboot", "Reset"):
            raise NotOffered(f"{action}: a simulated machine can be rebooted and reset only")
        pod = self._pod(id)
        if pod.stage not in (PodStage.BOOTING, PodStage.RUNNING):
            raise WrongState("the machine does not run")
        self._fleet.reboot(pod)

    def _pod(self, id: str) -> SimulatedPod:
        pod = self._fleet.find(id)
        if pod is None:
            raise RuntimeObjectNotFound("the machine is gone")
        return pod

    def _changed(self, id: str) -> None:
        """Start the guest with the first session, and end it with the last."""
        console = self._consoles[id]
        if len(console):
            self._guests[id] = self.tasks.begin(self._run(id, console), "a simulated console")
            return
        del self._consoles[id]
        self._guests.pop(id).cancel()

    async def _run(self, id: str, console: MachineConsole) -> None:
        """Show each start of the machine until the machine is gone."""
        while (pod := self._fleet.find(id)) is not None:
            started = pod.started
            guest = _Guest(console)
            console.begin(pod.restarts + 1, guest, guest.connect)
            shell = self.tasks.begin(self._boot(pod, guest), "a simulated guest")
            try:
                while (pod := self._fleet.find(id)) is not None and pod.runs and pod.started == started:
                    await self._clock.sleep(_POLL)
            finally:
                shell.cancel()
            console.over()
            while (pod := self._fleet.find(id)) is not None and not pod.runs:
                await self._clock.sleep(_POLL)
        console.close()

    async def _boot(self, pod: SimulatedPod, guest: _Guest) -> None:
        """Print the boot log as far as it is, then offer logins."""
        lines = boot_lines(booted=True)
        early = len(boot_lines(booted=False))
        await guest.terminal.write("".join(f"{line}\n" for line in lines[:early]).encode())
        while pod.stage is PodStage.BOOTING:
            await self._clock.sleep(_POLL)
        await guest.terminal.write("".join(f"{line}\n" for line in lines[early:]).encode())
        while True:
            guest.terminal.reopen()  # Ctrl-D ended the input of the shell or of the prompt before
            await guest.terminal.write(f"\n{pod.name} login: ".encode())
            if await guest.terminal.read_line():
                work = await self._login(pod.uid)
                await work(guest.terminal)
