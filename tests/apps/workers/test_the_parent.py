"""The parent of workers: ready when all are; restarts workers that end; ends when a worker cannot start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import os, signal, sys
from pathlib import Path
from tarmac.apps.workers.parent import Parent, SharedFlag
from tarmac.apps.workers.seat import Seat
from tarmac.base.clock import SystemClock

how, stop = sys.argv[1], SharedFlag()

def say(line):
    os.write(1, f"{line}\\n".encode())  # in one piece, whoever else writes

def work(seat, ready):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    say(f"began {seat.index}")
    if how == "fails" and seat.index == 1:
        return 7
    ready()
    signal.sigwait({signal.SIGTERM})
    say(f"stops {seat.index} {stop()}")
    return 0

parent = Parent(lambda index: Seat(index, 2, Path("."), stop), 2, work, stop, SystemClock())
sys.exit(parent.run(lambda: say("all ready")))
"""


def started(how: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, text=True)


@contextmanager
def ended(process: subprocess.Popen[str]) -> Generator[None]:
    """End the parent after the test, and with it its workers."""
    try:
        yield
    finally:
        process.kill()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def workers(process: subprocess.Popen[str]) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_a_worker_that_is_killed_is_started_again_and_a_signal_stops_all() -> None:
    with started("works") as process, ended(process):
        assert sorted(lines(process, 3)) == ["all ready", "began 0", "began 1"]
        first, second = workers(process)
        os.kill(first, signal.SIGKILL)
        assert lines(process, 1) == ["began 0"]
        assert second in workers(process)
        assert first not in workers(process)
        process.send_signal(signal.SIGTERM)
        assert sorted(lines(process, 2)) == ["stops 0 True", "stops 1 True"]
        assert process.wait(20) == 0


def test_a_worker_that_cannot_start_ends_the_server_with_its_exit_code() -> None:
    with started("fails") as process, ended(process):
        assert process.wait(20) == 7
        assert "all ready" not in (process.stdout.read() if process.stdout else "")
