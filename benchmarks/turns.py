"""`tarmac` with a meter of its event loop: the longest turn, in CPU time of the loop's own thread.

Wall time of a turn depends as much on other programs of the machine as on this one. A timer of a millisecond fires once
in every turn that is longer, so the CPU between two of its calls is that of a turn, and at most a millisecond more. On
SIGUSR1 it writes the longest so far, in seconds, to the file that the environment names, and resets it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from contextvars import Context
from pathlib import Path
from time import sleep, thread_time
from typing import Any, TypeVar

OUTPUT = "TARMAC_BENCH_TURNS"
_BEAT_SECONDS = 0.001
_ANSWER_SECONDS = 60.0

T = TypeVar("T")


class _Meter:
    def __init__(self, output: Path) -> None:
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._last = thread_time()
        self._longest = 0.0
        self._loop.add_signal_handler(signal.SIGUSR1, self._report)
        self._beat()

    def _beat(self) -> None:
        now = thread_time()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        self._loop.call_later(_BEAT_SECONDS, self._beat)

    def _report(self) -> None:
        written = self._output.with_suffix(".new")
        written.write_text(str(self._longest))
        written.replace(self._output)
        self._longest = 0.0


_run = asyncio.Runner.run


def _metered(self: asyncio.Runner, coro: Coroutine[Any, Any, T], *, context: Context | None = None) -> T:
    async def metered() -> T:
        _Meter(Path(os.environ[OUTPUT]))
        return await coro

    return _run(self, metered(), context=context)


def longest_turn(pid: int, output: Path) -> float:
    """Return a metered process's longest turn since the last call, in seconds."""
    output.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    for _ in range(int(_ANSWER_SECONDS / 0.05)):
        if output.exists():
            return float(output.read_text())
        sleep(0.05)
    raise TimeoutError(f"no answer from {pid}")


if __name__ == "__main__":
    from tarmac.apps.main import main

    asyncio.Runner.run = _metered
    sys.exit(main())
