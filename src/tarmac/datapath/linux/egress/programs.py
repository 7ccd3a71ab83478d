"""A program that outlives the agent that started it, and is found again by the next one.

The pid file identifies the process; the command line tells if that pid is still the same program. An agent that is
killed between starting a program and writing the pid leaves no file: the program is then searched among all processes
by its command line, which holds a path that is unique to the node.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_SECONDS: Final = 10
_DETACHED: Final = '"$@" </dev/null >/dev/null 2>&1 & echo $!'
_PROCESSES: Final = Path("/proc")


class DetachedProgram:
    """The process with a command line that ends with `words`, and with its pid in the file `pid`."""

    def __init__(self, words: Sequence[str], pid: Path) -> None:
        self._words, self._pid = [each.encode() for each in words], pid

    def process(self) -> int:
        """Return its pid; 0 if it does not run."""
        try:
            written = int(self._pid.read_text())
        except (FileNotFoundError, ValueError):
            return 0
        return written if self._is_ours(written) else 0

    @property
    def was_started(self) -> bool:
        """True if it runs, or has ended without `end`."""
        return self._pid.exists()

    @property
    def has_ended(self) -> bool:
        """True if it was started and runs no more."""
        return self.was_started and not self.process()

    def start(self, program: Path, environment: Mapping[str, str] | None = None) -> None:
        """Start it in the namespaces of this thread. It may still exit right away. Raises OSError."""
        # Also one whose pid was never written: two programs would fight for the same link or lock.
        self.end()
        self._pid.parent.mkdir(parents=True, exist_ok=True)
        # Detached from the agent: init reaps it.
        done = subprocess.run(
            ["sh", "-c", _DETACHED, "sh", str(program), *map(os.fsdecode, self._words)],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            # Signals to the agent's process group must not reach it.
            start_new_session=True,
            timeout=_SECONDS,
        )
        if done.returncode:
            raise OSError(f"{program.name} could not be started: {done.stderr.strip()}")
        # Killed before this line, the next agent finds the program by its command line.
        self._pid.write_text(done.stdout)

    def end(self) -> None:
        """Kill it, also if an earlier agent started it, and wait until it is gone."""
        known = self.process()
        for process in [known] if known else self._search_processes():
            _end(process)
        self._pid.unlink(missing_ok=True)

    def _search_processes(self) -> list[int]:
        numbers = (int(each.name) for each in _PROCESSES.iterdir() if each.name.isdecimal())
        return [each for each in numbers if self._is_ours(each)]

    def _is_ours(self, process: int) -> bool:
        try:
            line = (_PROCESSES / str(process) / "cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            return False
        # The pid may belong to another program by now, which must not be killed.
        return line[-len(self._words) :] == self._words


def _end(process: int) -> None:
    """Kill a process. It has nothing to finish: its state is in the kernel."""
    try:
        # By pidfd: the pid could be reused between the check and the signal.
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        # It may end by itself between the two calls.
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        ended.poll(_SECONDS * 1000)
    finally:
        os.close(handle)
