"""Who keeps a machine's server, containerd and agent running: systemd, or the command itself until a signal comes.

In the foreground the server and the agent are children that are started again when they end, but not when `leave` has
ended them; containerd and its pods outlive the command, as they outlive `tarmac up`, and the next one adopts them.
Where there is neither, somebody else keeps them running, and is told the commands.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Literal, Protocol, Self

from tarmac.apps.machine.configuration import documents_in
from tarmac.apps.machine.layout import Machine, SetupFailed, another_sets_up, pinned_containerd
from tarmac.apps.processes import PAUSE, end, start, stop, told
from tarmac.base.clock import SystemClock
from tarmac.base.tasks import background, supervise
from tarmac.cli.configfile import BadConfigFile
from tarmac.runtimes import containerd
from tarmac.runtimes.containerd.leftovers import end_orphans
from tarmac.runtimes.parts import find_parts

Part = Literal["server", "containerd", "agent"]
_DOCUMENTS: dict[Part, str] = {"server": "ServerConfig", "containerd": "AgentConfig", "agent": "AgentConfig"}
_ENDING = (signal.SIGTERM, signal.SIGINT)
_LINES = 5
_LOOK = 2.0


class Services(Protocol):
    """Whoever keeps parts running."""

    supervised: bool
    """Whether what is started is running now; False: somebody else will start it."""

    async def start(self, part: Part) -> None:
        """Have a part running. Raises SetupFailed, OSError, RuntimeError."""
        ...

    def last_words(self, part: Part) -> list[str]:
        """What it said last."""
        ...


def command_of(machine: Machine, part: Part) -> list[str]:
    """As a part is run."""
    own = [] if part == "containerd" else [f"--config={machine.config}"]
    return [sys.executable, "-m", "tarmac.apps.main", part, *own]


class Systemd:
    """Units of the package."""

    supervised = True

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def start(self, part: Part) -> None:
        """Enable and start the unit, or start it again with what the configuration says now."""
        unit = f"tarmac-{part}.service"
        await asyncio.to_thread(_systemctl, "enable", unit)
        await asyncio.to_thread(_systemctl, "restart" if part != "containerd" else "start", unit)
        if part == "containerd":  # before the agent tries whether pods can be run
            # The unit links its programs to where they stay, just now; two of us at that would be in each other's way.
            await containerd.adopt(self._machine.containerd(find_parts()))

    def last_words(self, part: Part) -> list[str]:
        """From the journal."""
        journal = ["journalctl", "--unit", f"tarmac-{part}.service", "--lines", str(_LINES), "--output", "cat"]
        return subprocess.run(journal, check=False, capture_output=True, text=True).stdout.splitlines()


class Foreground:
    """Children of this process, and a containerd that is nobody's."""

    supervised = True

    def __init__(self, machine: Machine, stack: AsyncExitStack) -> None:
        self._machine = machine
        self._stack = stack
        self._started: set[Part] = set()
        self._left: set[Part] = set()

    async def start(self, part: Part) -> None:
        """Start it, after those that a killed command left behind."""
        if part in self._started:
            return
        self._started.add(part)
        if part == "containerd":
            await containerd.start(pinned_containerd(self._machine))
            keeping = supervise("containerd", self._keep_containerd, SystemClock())
        else:
            await end(running(self._machine, part))
            keeping = self._keep(part)
        await self._stack.enter_async_context(background(keeping, f"the machine's {part}"))

    def last_words(self, part: Part) -> list[str]:
        """From its log."""
        try:
            return self._machine.log(part).read_text(errors="replace").splitlines()[-_LINES:]
        except OSError:
            return []

    async def _keep(self, part: Part) -> None:
        while True:
            process = await start(command_of(self._machine, part), self._machine.log(part))
            try:
                await process.wait()
            except asyncio.CancelledError:
                await stop(process)
                raise
            await asyncio.sleep(PAUSE)
            if await self._is_left(part):
                return

    async def _keep_containerd(self) -> None:
        settings = pinned_containerd(self._machine)
        while True:
            await asyncio.sleep(_LOOK)
            if not containerd.processes(settings) and not await self._is_left("containerd"):
                await containerd.start(settings)
                end_orphans(settings.run)

    async def _is_left(self, part: Part) -> bool:
        """Whether `leave` took the part away; for good, since who joins again keeps it running himself.

        `leave` ends parts first and their documents last, and holds the lock meanwhile: until it is done, nobody knows.
        """
        waited = False
        while part not in self._left and another_sets_up(self._machine):
            await asyncio.sleep(PAUSE)
            waited = True
        with suppress(BadConfigFile):  # somebody is at it with an editor
            # Who joined again before we looked has one running by now.
            again = waited and running(self._machine, part)
            if again or _DOCUMENTS[part] not in documents_in(self._machine.config):
                self._left.add(part)
        return part in self._left


class Elsewhere:
    """Somebody else's: only told what to run."""

    supervised = False

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def start(self, part: Part) -> None:
        """Tell the command."""
        print(f"run: {' '.join(command_of(self._machine, part))}")

    def last_words(self, part: Part) -> list[str]:
        """Nobody knows."""
        return []


@asynccontextmanager
async def services(machine: Machine, *, foreground: bool) -> AsyncGenerator[Services]:
    """Whoever there is. Leaving the block ends children in the foreground, and nothing else."""
    async with AsyncExitStack() as stack:
        if foreground:
            yield Foreground(machine, stack)
        else:
            yield Systemd(machine) if has_systemd() else Elsewhere(machine)


class Signals:
    """SIGTERM and SIGINT: one ends the steps where they are, or the wait after them. Nothing is half done by that."""

    def __init__(self) -> None:
        self._came = asyncio.Event()
        self._waiting = False

    async def __aenter__(self) -> Self:
        working = asyncio.current_task()

        def stop() -> None:
            self._came.set()
            if working is not None and not self._waiting:
                working.cancel()

        for number in _ENDING:
            asyncio.get_running_loop().add_signal_handler(number, stop)
        return self

    async def __aexit__(self, *_: object) -> None:
        for number in _ENDING:
            asyncio.get_running_loop().remove_signal_handler(number)

    async def wait(self) -> None:
        """Until one comes."""
        self._waiting = True
        await self._came.wait()


def has_systemd() -> bool:
    """Whether it is process 1 here."""
    return Path("/run/systemd/system").is_dir()


def running(machine: Machine, part: Part) -> list[int]:
    """The processes of a part, whoever started them."""
    mark = f"--config={machine.config}"
    return told(lambda words: part in words and mark in words)


async def stop_all(machine: Machine, *, server: bool) -> None:
    """End the agent and, if asked, the server, and whoever would start them again. containerd stays."""
    parts: tuple[Part, ...] = ("agent", "server") if server else ("agent",)
    if has_systemd():
        for part in parts:
            await asyncio.to_thread(_quietly, "disable", "--now", f"tarmac-{part}.service")
    await end(told(lambda words: _keeps(words, server=server)))
    for part in parts:
        await end(running(machine, part))


def _keeps(words: list[str], *, server: bool) -> bool:
    """Whether it is a command in the foreground that is to end: one that has a server does with the server."""
    serves = "init" in words or any(word.partition("=")[0] == "--server" for word in words)
    return "--foreground" in words and (serves or "join" in words) and (server or not serves)


def _systemctl(*words: str) -> None:
    done = subprocess.run(["systemctl", *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        hint = "is the package installed? --foreground needs no units"
        raise SetupFailed(f"systemctl {' '.join(words)}: {done.stderr.strip()} ({hint})")


def _quietly(*words: str) -> None:
    subprocess.run(["systemctl", *words], check=False, capture_output=True)
