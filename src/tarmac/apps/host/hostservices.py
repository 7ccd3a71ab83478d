"""Runs a host's etcd member, server, containerd and agent: by systemd, or by this command in the foreground.

In the foreground the server and the agent are children that are restarted when they end, unless `leave` stopped them;
containerd and its pods outlive the command, as with `tarmac up`, and the next one adopts them. Without systemd and
`--foreground` the commands are printed for the operator's own supervisor.
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

from tarmac.apps.host.configuration import documents_in
from tarmac.apps.host.hostlayout import Machine, SetupFailed, another_sets_up, pinned_containerd
from tarmac.apps.processes import RESTART_DELAY, end, ended, find_processes, start, stop
from tarmac.base.clock import SystemClock
from tarmac.base.tasks import background, supervise
from tarmac.cli.configfile import BadConfigFile
from tarmac.runtimes import containerd
from tarmac.runtimes.containerd.orphans import end_orphans
from tarmac.runtimes.parts import find_parts

Part = Literal["etcd", "server", "containerd", "agent"]
_DOCUMENTS: dict[Part, str] = {
    "etcd": "ServerConfig",
    "server": "ServerConfig",
    "containerd": "AgentConfig",
    "agent": "AgentConfig",
}
_ENDING = (signal.SIGTERM, signal.SIGINT)
LOG_LINES = 5
_POLL_INTERVAL = 2.0


class Services(Protocol):
    """Supervises the parts."""

    supervised: bool
    """True if started parts are running now; False if an external supervisor starts them."""

    async def start(self, part: Part) -> None:
        """Ensure that a part runs. Raises SetupFailed, OSError, RuntimeError."""
        ...

    def last_words(self, part: Part, lines: int = LOG_LINES) -> list[str]:
        """Return the last lines of its log."""
        ...


def command_of(machine: Machine, part: Part) -> list[str]:
    """Return the command line of a part."""
    if part == "etcd":
        return [sys.executable, "-m", "tarmac.apps.main", "etcd", "run", f"--data-dir={machine.data}"]
    own = [] if part == "containerd" else [f"--config={machine.config}"]
    return [sys.executable, "-m", "tarmac.apps.main", part, *own]


class Systemd:
    """The systemd units of the package."""

    supervised = True

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def start(self, part: Part) -> None:
        """Enable and start the unit, or restart it with the current configuration."""
        unit = f"tarmac-{part}.service"
        await asyncio.to_thread(_systemctl, "enable", unit)
        await asyncio.to_thread(_systemctl, "restart" if part != "containerd" else "start", unit)
        if part == "containerd":  # before the agent tests the runtime
            # The unit is linking its programs right now; doing the same here would conflict with it.
            await containerd.adopt(self._machine.containerd(find_parts()))

    def last_words(self, part: Part, lines: int = LOG_LINES) -> list[str]:
        """Read the journal."""
        journal = ["journalctl", "--unit", f"tarmac-{part}.service", "--lines", str(lines), "--output", "cat"]
        return subprocess.run(journal, check=False, capture_output=True, text=True).stdout.splitlines()


class Foreground:
    """Children of this process, and a detached containerd."""

    supervised = True

    def __init__(self, machine: Machine, stack: AsyncExitStack) -> None:
        self._machine = machine
        self._stack = stack
        self._started: set[Part] = set()
        self._left: set[Part] = set()

    async def start(self, part: Part) -> None:
        """Start a part, after stopping those that a killed command left."""
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

    def last_words(self, part: Part, lines: int = LOG_LINES) -> list[str]:
        """Read the log file."""
        try:
            return self._machine.log(part).read_text(errors="replace").splitlines()[-lines:]
        except OSError:
            return []

    async def _keep(self, part: Part) -> None:
        while True:
            process = await start(command_of(self._machine, part), self._machine.log(part))
            try:
                await ended(process, self._machine.log(part))
            except asyncio.CancelledError:
                await stop(process)
                raise
            await asyncio.sleep(RESTART_DELAY)
            if await self._is_left(part):
                return

    async def _keep_containerd(self) -> None:
        settings = pinned_containerd(self._machine)
        while True:
            await asyncio.sleep(_POLL_INTERVAL)
            if not containerd.processes(settings) and not await self._is_left("containerd"):
                await containerd.start(settings)
                end_orphans(settings.run)

    async def _is_left(self, part: Part) -> bool:
        """Return True if `leave` removed the part; permanently, since a new `join` supervises it by itself.

        `leave` stops parts first and removes their documents last, while it holds the lock: until it is done, the state
        is unknown.
        """
        waited = False
        while part not in self._left and another_sets_up(self._machine):
            await asyncio.sleep(RESTART_DELAY)
            waited = True
        with suppress(BadConfigFile):  # the file is being edited
            # A new `join` since then has started the part by now.
            again = waited and running(self._machine, part)
            if again or _DOCUMENTS[part] not in documents_in(self._machine.config):
                self._left.add(part)
        return part in self._left


class Elsewhere:
    """An external supervisor: only prints the commands."""

    supervised = False

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def start(self, part: Part) -> None:
        """Print the command."""
        print(f"run: {' '.join(command_of(self._machine, part))}")

    def last_words(self, part: Part, lines: int = LOG_LINES) -> list[str]:
        """Return nothing: the log is unknown."""
        return []


@asynccontextmanager
async def services(machine: Machine, *, foreground: bool) -> AsyncGenerator[Services]:
    """Return the available supervisor. Leaving the block stops only children in the foreground."""
    async with AsyncExitStack() as stack:
        if foreground:
            yield Foreground(machine, stack)
        else:
            yield Systemd(machine) if has_systemd() else Elsewhere(machine)


class Signals:
    """SIGTERM and SIGINT: cancel the steps, or the wait after them. Steps are safe to cancel."""

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
        """Wait for a signal."""
        self._waiting = True
        await self._came.wait()


def has_systemd() -> bool:
    """Return True if systemd is process 1."""
    return Path("/run/systemd/system").is_dir()


def running(machine: Machine, part: Part) -> list[int]:
    """Return the processes of a part, regardless of their parent."""
    if part == "etcd":  # the command becomes the program, with a command line of its own
        marks = {f"--data-dir={machine.data}", f"--data-dir={machine.etcd_data}"}
        return find_processes(lambda words: bool(marks.intersection(words)) and _is_etcd(words))
    mark = f"--config={machine.config}"
    return find_processes(lambda words: part in words and mark in words)


def _is_etcd(words: list[str]) -> bool:
    return "etcd" in words or Path(words[0]).name == "etcd"


async def stop_all(machine: Machine, *, server: bool) -> None:
    """Stop the agent and, if asked, the server and its etcd member, and their supervisors. containerd keeps running."""
    parts: tuple[Part, ...] = ("agent", "server", "etcd") if server else ("agent",)
    if has_systemd():
        for part in parts:
            await asyncio.to_thread(_quietly, "disable", "--now", f"tarmac-{part}.service")
    await end(find_processes(lambda words: _keeps(words, server=server)))
    for part in parts:
        await end(running(machine, part))


def _keeps(words: list[str], *, server: bool) -> bool:
    """Return True for a foreground command that has to end: one that runs a server only with the server."""
    serves = "init" in words or any(word.partition("=")[0] == "--server" for word in words)
    return "--foreground" in words and (serves or "join" in words) and (server or not serves)


def _systemctl(*words: str) -> None:
    done = subprocess.run(["systemctl", *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        hint = "is the package installed? --foreground needs no units"
        raise SetupFailed(f"systemctl {' '.join(words)}: {done.stderr.strip()} ({hint})")


def _quietly(*words: str) -> None:
    subprocess.run(["systemctl", *words], check=False, capture_output=True)
