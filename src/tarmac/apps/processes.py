"""Child programs of `up`: started, watched, stopped, and found by their command lines if they are orphans.

They run in their own sessions: an interrupt from the keyboard reaches only `up`, which then shuts down in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tarmac.apps.logfile import MAX_SIZE

_STOP_TIMEOUT = 15.0
_LOG_INTERVAL = 60.0  # seconds between looks at the size of a child's log
RESTART_DELAY = 1.0
"""Delay between the end of a program and its restart."""


def find_processes(matches: Callable[[list[str]], bool]) -> list[int]:
    """Return the processes with a matching command line, regardless of their parent."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
                if matches(words):
                    found.append(int(entry.name))
    return found


async def end(pids: Sequence[int]) -> None:
    """Stop processes that are not children of this one: SIGTERM, then SIGKILL. Returns once their ports are free."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            _signal(pid, number)
        await _ended(pids, _STOP_TIMEOUT)


async def _ended(pids: Sequence[int], timeout: float) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    while any(map(_lives, pids)) and loop.time() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # polled: only a parent is notified


def last_words(path: Path) -> str:
    """Return the last line of a log."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "nothing"


def _private_log(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")


async def start(
    arguments: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
) -> asyncio.subprocess.Process:
    """Start a program that writes to a log; it inherits the environment unless one is given."""
    with _private_log(output) as log_file:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"} if environment is None else environment,
        )


async def ended(process: asyncio.subprocess.Process, log: Path, interval: float = _LOG_INTERVAL) -> int:
    """Wait until a child ends, and keep its log small meanwhile; return its exit code."""
    while True:
        try:
            return await asyncio.wait_for(process.wait(), interval)
        except TimeoutError:
            await asyncio.to_thread(bound_log, log)


def bound_log(log: Path, most: int = MAX_SIZE) -> None:
    """Move the lines of a log into one older file when there are too many.

    Tenants cause lines, so without a bound they could fill the disk of the store. The program keeps the log open, so it
    is copied and emptied; what is written in between is lost.
    """
    with contextlib.suppress(OSError):
        if log.stat().st_size <= most:
            return
        older = log.with_name(f"{log.name}.1")
        older.unlink(missing_ok=True)
        with log.open("rb") as source, _private_log(older) as kept:
            shutil.copyfileobj(source, kept)
        os.truncate(log, 0)  # the program appends, so its next line is the first


async def stop(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM to a child, then SIGKILL after a timeout, and wait."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP_TIMEOUT)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _lives(pid: int) -> bool:
    """Report a process as alive while one of its threads is.

    The main thread may be a zombie while other threads still exit, and they hold the files and ports of the process. A
    zombie without such threads counts as gone: in a container its parent may never reap it.
    """
    states: list[bytes] = []
    with contextlib.suppress(OSError):  # it may vanish between two reads
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                states.append((thread / "stat").read_bytes().rpartition(b")")[2].split()[0])
    return any(state not in (b"Z", b"X") for state in states)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
