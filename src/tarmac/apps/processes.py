"""Programs beside `up`: started, watched, ended, and found again by their command lines when nobody's child.

They get sessions of their own: an interrupt from the keyboard is for `up`, which then says good-bye in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_STOP_SECONDS = 15.0
PAUSE = 1.0
"""Between the end of a program and its next start."""


def told(matches: Callable[[list[str]], bool]) -> list[int]:
    """The processes whose command line is such, whoever started them."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
                if matches(words):
                    found.append(int(entry.name))
    return found


async def end(pids: Sequence[int]) -> None:
    """Ask processes that are nobody's children to stop, and insist."""
    loop = asyncio.get_running_loop()
    for pid in pids:
        _signal(pid, signal.SIGTERM)
    until = loop.time() + _STOP_SECONDS
    while any(map(_lives, pids)) and loop.time() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # nobody tells us of their end
    for pid in pids:
        _signal(pid, signal.SIGKILL)


def last_words(path: Path) -> str:
    """The last line of a log."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "nothing"


async def start(
    arguments: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
) -> asyncio.subprocess.Process:
    """Start a program that writes to a log; its environment is ours unless one is given."""
    with output.open("ab") as log_file:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"} if environment is None else environment,
        )


async def stop(process: asyncio.subprocess.Process) -> None:
    """Ask a child to stop, insist, and wait."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _lives(pid: int) -> bool:
    """Whether it still does anything. In a container nobody may take note of an end: what is left then is gone, too."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] != b"Z"


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
