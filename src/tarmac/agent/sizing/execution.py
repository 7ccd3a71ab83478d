"""Runs one program to its end: no shell, its own session, no inherited descriptors, limits on time and output.

The program is started by `subprocess` and not by the event loop, which would pass a file that is no program to a shell.
Its end is signalled by a pidfd. It is not reaped before its whole process group is killed, so the group id cannot have
been reused. If a child still holds a pipe, the pipe is read for another second; data read so far counts. If the agent
is killed, the kernel kills the program.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tarmac.base.tasks import Tasks, background, finished

_CHUNK_SIZE: Final = 1 << 16
_SET_PDEATHSIG: Final = 1
_libc: Final = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """Seconds and bytes.

    `linger`: time for reading pipes after the exit. `dying`: time for a killed program to exit.
    """

    seconds: float = 60.0
    linger: float = 1.0
    dying: float = 5.0
    out: int = 1 << 20
    err: int = 1 << 16


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """Result of a program: `status` is its exit code, or a negative signal number. `err` is the end of its stderr."""

    status: int
    out: bytes
    err: bytes


class ProgramNotEnded(Exception):
    """The program was killed. `err` is the end of its stderr."""

    def __init__(self, why: str, err: bytes) -> None:
        super().__init__(why)
        self.err: Final = err


async def execute(command: Sequence[str], env: Mapping[str, str], stdin: bytes, limits: ProgramLimits) -> ProgramExit:
    """Run the program and wait.

    Raises OSError if it cannot be started, ProgramNotEnded above the time or output limit.
    """
    # Left only after the program has ended: a reader closed earlier would end it by SIGPIPE.
    with _Pipe(limits.out, whole=True) as out, _Pipe(limits.err, whole=False) as err:
        process = _start(command, env, stdin, out, err)
        try:
            return await _supervise(process, out, err, limits)
        finally:
            await finished(Tasks().track(_reap(process, limits.dying), "the end of a program"))


async def _supervise(process: subprocess.Popen[bytes], out: _Pipe, err: _Pipe, limits: ProgramLimits) -> ProgramExit:
    out.follow()
    err.follow()
    async with background(_exited(process.pid), "a program") as gone:
        await asyncio.wait((gone, out.overflowed), timeout=limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            await asyncio.wait((out.ended, err.ended), timeout=limits.linger)
        elif not out.overflowed.done():
            raise ProgramNotEnded(f"did not answer within {limits.seconds:g} s", bytes(err.content))
        if out.overflowed.done():
            raise ProgramNotEnded(f"stdout is more than {limits.out >> 20} MiB", bytes(err.content))
        return ProgramExit(_status(process.pid), bytes(out.content), bytes(err.content))


def _start(
    command: Sequence[str], env: Mapping[str, str], stdin: bytes, out: _Pipe, err: _Pipe
) -> subprocess.Popen[bytes]:
    # a request is far smaller than a pipe, so it can be written completely before the start
    reader, writer = os.pipe()
    try:
        os.write(writer, stdin)
        os.close(writer)
        parent = os.getpid()
        # Blocks until the program is executed or has failed to: Popen reads the error from a pipe.
        return subprocess.Popen(
            command,
            stdin=reader,
            stdout=out.writer,
            stderr=err.writer,
            env=dict(env),
            cwd="/",
            start_new_session=True,
            preexec_fn=lambda: _die_with(parent),  # noqa: PLW1509 - a single system call, takes no lock
        )
    finally:
        os.close(reader)
        out.close_writer()
        err.close_writer()


def _die_with(parent: int) -> None:
    """Runs in the child: make the kernel kill it with the agent.

    The agent may have died before the call: check after.
    """
    _libc.prctl(_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


async def _exited(pid: int) -> None:
    """Wait until a process has exited, without reaping it: its status and its pid stay valid."""
    # The child is not reaped yet, so its pid cannot be that of another process.
    loop, handle = asyncio.get_running_loop(), os.pidfd_open(pid)
    ended = loop.create_future()
    try:
        loop.add_reader(handle, lambda: ended.done() or ended.set_result(None))
        await ended
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _status(pid: int) -> int:
    # WNOWAIT: reaping the leader here would free its pid before its group is killed.
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert found is not None, "it has ended"
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


async def _reap(process: subprocess.Popen[bytes], timeout: float) -> None:
    """Kill the whole group, which may outlive its leader, then reap the leader. The order matters: see above."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # a process in uninterruptible I/O cannot be killed; it is left to the kernel without waiting
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await _exited(process.pid)
    process.poll()


class _Pipe:
    """Reads a program's output. `whole`: more than `limit` is an overflow; otherwise only the end is kept."""

    def __init__(self, limit: int, whole: bool) -> None:
        self._reader, self.writer = os.pipe()
        # Non-blocking: a wake-up without data must not hold the event loop.
        os.set_blocking(self._reader, False)
        self._limit, self._whole = limit, whole
        self._loop = asyncio.get_running_loop()
        self.content = bytearray()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.overflowed: asyncio.Future[None] = self._loop.create_future()

    def follow(self) -> None:
        """Start reading."""
        self._loop.add_reader(self._reader, self._read)

    def close_writer(self) -> None:
        """Close the agent's copy of the write end."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _read(self) -> None:
        try:
            chunk = os.read(self._reader, _CHUNK_SIZE)
        except BlockingIOError:
            return
        self.content += chunk
        if not chunk:
            self._stop(self.ended)
        elif len(self.content) > self._limit and self._whole:
            self._stop(self.overflowed)
        else:
            del self.content[: -self._limit]

    def _stop(self, why: asyncio.Future[None]) -> None:
        self._loop.remove_reader(self._reader)
        if not why.done():
            why.set_result(None)

    def __enter__(self) -> _Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_writer()
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
