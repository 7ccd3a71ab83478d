"""The parent of the workers: it creates keys, holds the port, and starts and restarts workers.

It has no event loop and no threads, so that it can fork at any time; a worker starts as a copy of the parent, with all
modules loaded. Each worker has a pipe to the parent: a byte means that it is ready, end of file that it has exited. If
the parent is killed, the kernel sends its workers SIGTERM.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tarmac.apps.workers.seat import Seat
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.accepting import bind
from tarmac.http.sockets import enable_keepalive, reuse_port

_MIN_DELAY, _MAX_DELAY = 0.1, 5.0
_RESET_AFTER: Final = 60.0  # a worker that lived this long is restarted without a longer delay
_STOP_TIMEOUT: Final = 25.0
_SET_PDEATHSIG: Final = 1
_log = log("workers")

Work = Callable[[Seat, Callable[[], None]], int]
"""The main function of a worker: calls the second argument when it is ready, and returns its exit code."""


class SharedFlag:
    """A flag set by the parent and visible to all workers, including those started before."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        """Set the flag."""
        self._byte[0] = 1

    def __call__(self) -> bool:
        return self._byte[0] == 1


def reserved(hosts: Sequence[str], port: int) -> tuple[int, list[socket.socket]]:
    """Reserve the port for all workers while the sockets are held. Raises OSError."""
    held: list[socket.socket] = []
    for host in hosts:
        if port:
            # SO_REUSEPORT would let a second server of the same user bind the port too: try without sharing first.
            for tried in bind(host, port, enable_keepalive):
                tried.close()
        bound = bind(host, port, reuse_port)
        port = bound[0].getsockname()[1]
        held += bound
    return port, held


@dataclass(slots=True)
class _Worker:
    """One process. `pid` is 0 while there is none; it is started at `due`."""

    pid: int = 0
    pipe: int = -1
    ready: bool = False
    began: float = 0.0
    pause: float = _MIN_DELAY
    due: float = 0.0


class Parent:
    """Keeps `seats` workers running until stopped."""

    def __init__(self, seats: Callable[[int], Seat], count: int, work: Work, stop: SharedFlag, clock: Clock) -> None:
        self._seats = seats
        self._work = work
        self._stop = stop
        self._clock = clock
        self._workers = [_Worker() for _ in range(count)]
        self._selector = selectors.DefaultSelector()
        self._failed = 0
        self._all_ready = False

    def run(self, ready: Callable[[], None]) -> int:
        """Call `ready` once all workers are.

        Return 0 after a signal, else the exit code of the worker that failed to start.
        """
        self._watch_signals()
        while not self._stop():
            self._start_due()
            for key, _ in self._selector.select(self._until_due()):
                self._handle(key.data)
            if not self._all_ready and all(each.ready for each in self._workers):
                self._all_ready = True
                ready()
        self._end_all()
        return self._failed

    def _watch_signals(self) -> None:
        """Let signals wake the selector; they are handled there, never in the middle of a step."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(reader, False)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        self._selector.register(reader, selectors.EVENT_READ, None)

    def _start_due(self) -> None:
        now = self._clock.monotonic()
        for index, worker in enumerate(self._workers):
            if not worker.pid and worker.due <= now:
                self._start(index, worker)

    def _until_due(self) -> float | None:
        waits = [each.due - self._clock.monotonic() for each in self._workers if not each.pid]
        return max(0.0, min(waits)) if waits else None

    def _start(self, index: int, worker: _Worker) -> None:
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._be_worker(index, parent, writer)
        os.close(writer)
        worker.pid, worker.pipe, worker.ready, worker.began = pid, reader, False, self._clock.monotonic()
        self._selector.register(reader, selectors.EVENT_READ, worker)

    def _be_worker(self, index: int, parent: int, pipe: int) -> None:
        """Runs in the child, to its end."""
        code = 1
        try:
            os.setpgid(0, 0)  # keyboard interrupts go to the parent, which then stops all workers in order
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
            if os.getppid() != parent:  # the parent died before the call
                os._exit(1)
            for each in self._workers:
                if each.pid:
                    os.close(each.pipe)
            self._selector.close()
            code = self._work(self._seats(index), lambda: _report_ready(pipe))
            sys.stdout.flush()
        finally:
            # Not by sys.exit: exit handlers of the parent must not run here.
            os._exit(code)

    def _handle(self, worker: _Worker | None) -> None:
        if worker is None:  # a signal
            return
        if os.read(worker.pipe, 1):
            worker.ready = True
            return
        self._selector.unregister(worker.pipe)
        os.close(worker.pipe)
        _, status = os.waitpid(worker.pid, 0)  # its pipe is closed, so it has exited or is about to
        code, now = os.waitstatus_to_exitcode(status), self._clock.monotonic()
        if not self._stop():
            _log.warning("worker ended", worker=self._workers.index(worker), pid=worker.pid, code=code)
        if not self._all_ready and code > 0:  # an error at start affects all workers
            self._failed = code
            self._stop.set()
        if now - worker.began > _RESET_AFTER:
            worker.pause = _MIN_DELAY
        worker.pid, worker.ready, worker.due = 0, False, now + worker.pause
        worker.pause = min(worker.pause * 2, _MAX_DELAY)

    def _end_all(self) -> None:
        self._stop.set()
        deadline = self._clock.monotonic() + _STOP_TIMEOUT
        self._signal(signal.SIGTERM)
        while any(each.pid for each in self._workers):
            left = deadline - self._clock.monotonic()
            if left <= 0:
                self._signal(signal.SIGKILL)
            for key, _ in self._selector.select(max(left, 1.0)):
                if key.data is None:
                    with suppress(BlockingIOError):
                        os.read(key.fd, 64)  # further signals change nothing
                else:
                    self._handle(key.data)

    def _signal(self, number: signal.Signals) -> None:
        for each in self._workers:
            if each.pid:
                with suppress(ProcessLookupError):
                    os.kill(each.pid, number)


def _report_ready(pipe: int) -> None:
    with suppress(OSError):  # the parent has died; the kernel sends a signal
        os.write(pipe, b"r")
