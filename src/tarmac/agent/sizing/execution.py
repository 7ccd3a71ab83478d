"""One program, run to its end: no shell, a session of its own, nothing inherited, and limits on time and talk.

The program is started by `subprocess` and not by the loop, whose way of starting hands a file that is no program to a
shell. Its end is heard from a descriptor of the process; until its whole group is killed it is not reaped, so that the
group's number cannot have become somebody else's. Where something that it started still holds a pipe, the pipe is read
for a second more; what was read counts. If the agent is killed, the kernel kills the program.
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

_PIECE: Final = 1 << 16
_SET_PDEATHSIG: Final = 1
_libc: Final = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes. `linger`: for reading pipes after the end. `dying`: for a program that is killed."""

    seconds: float = 60.0
    linger: float = 1.0
    dying: float = 5.0
    out: int = 1 << 20
    err: int = 1 << 16


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: `status` is its exit code, or less a signal's number. `err` is the last that it said."""

    status: int
    out: bytes
    err: bytes


class NotEnded(Exception):
    """It was not let run to its end. `err` is the last that it said."""

    def __init__(self, why: str, err: bytes) -> None:
        super().__init__(why)
        self.err: Final = err


async def execute(command: Sequence[str], env: Mapping[str, str], stdin: bytes, limits: Limits) -> Ended:
    """Run it and wait. Raises OSError when it cannot be started, NotEnded when it takes too long or says too much."""
    with _Pipe(limits.out, whole=True) as out, _Pipe(limits.err, whole=False) as err:
        process = _start(command, env, stdin, out, err)
        try:
            return await _attended(process, out, err, limits)
        finally:
            await finished(Tasks().promise(_reaped(process, limits.dying), "the end of a program"))


async def _attended(process: subprocess.Popen[bytes], out: _Pipe, err: _Pipe, limits: Limits) -> Ended:
    out.follow()
    err.follow()
    async with background(_gone(process.pid), "a program") as gone:
        await asyncio.wait((gone, out.overflowed), timeout=limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            await asyncio.wait((out.ended, err.ended), timeout=limits.linger)
        elif not out.overflowed.done():
            raise NotEnded(f"did not answer within {limits.seconds:g} s", bytes(err.content))
        if out.overflowed.done():
            raise NotEnded(f"stdout is more than {limits.out >> 20} MiB", bytes(err.content))
        return Ended(_status(process.pid), bytes(out.content), bytes(err.content))


def _start(
    command: Sequence[str], env: Mapping[str, str], stdin: bytes, out: _Pipe, err: _Pipe
) -> subprocess.Popen[bytes]:
    # a request is far smaller than a pipe, so it is there, with its end, before anybody reads
    reader, writer = os.pipe()
    try:
        os.write(writer, stdin)
        os.close(writer)
        parent = os.getpid()
        return subprocess.Popen(
            command,
            stdin=reader,
            stdout=out.writer,
            stderr=err.writer,
            env=dict(env),
            cwd="/",
            start_new_session=True,
            preexec_fn=lambda: _die_with(parent),  # noqa: PLW1509 - one call of the kernel, nothing that takes a lock
        )
    finally:
        os.close(reader)
        out.close_writer()
        err.close_writer()


def _die_with(parent: int) -> None:
    """In the new process: have the kernel kill it with the agent, which may be gone before the kernel was asked."""
    _libc.prctl(_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


async def _gone(pid: int) -> None:
    """Wait until a process has ended; it can still be asked for its status, and its number is still its own."""
    loop, handle = asyncio.get_running_loop(), os.pidfd_open(pid)
    ended = loop.create_future()
    try:
        loop.add_reader(handle, lambda: ended.done() or ended.set_result(None))
        await ended
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _status(pid: int) -> int:
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert found is not None, "it has ended"
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


async def _reaped(process: subprocess.Popen[bytes], patience: float) -> None:
    """Kill the whole group, which may outlive its first process, then reap that one. In this order: see above."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # what waits for a disk cannot be killed; it is left to the kernel, and the agent does not wait with it
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await _gone(process.pid)
    process.poll()


class _Pipe:
    """What a program says, read as it comes. `whole`: more than `most` is too much; otherwise the last is kept."""

    def __init__(self, most: int, whole: bool) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._most, self._whole = most, whole
        self._loop = asyncio.get_running_loop()
        self.content = bytearray()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.overflowed: asyncio.Future[None] = self._loop.create_future()

    def follow(self) -> None:
        """Read from now on."""
        self._loop.add_reader(self._reader, self._read)

    def close_writer(self) -> None:
        """Leave writing to the program."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _read(self) -> None:
        try:
            piece = os.read(self._reader, _PIECE)
        except BlockingIOError:
            return
        self.content += piece
        if not piece:
            self._stop(self.ended)
        elif len(self.content) > self._most and self._whole:
            self._stop(self.overflowed)
        else:
            del self.content[: -self._most]

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
