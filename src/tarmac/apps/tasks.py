"""Tasks that last as long as a block, and tasks that are begun again when they fail."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tarmac.base.clock import Clock
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log

_SHORTEST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_log = log("tarmac")


@asynccontextmanager
async def ended(task: asyncio.Task[None]) -> AsyncGenerator[None]:
    """Cancel the task when the block is over, and wait for its end; if it had failed by then, its error comes out."""
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def supervise(name: str, run: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run until cancelled. A failure is logged and the work begun anew, after pauses that grow while it fails."""
    pause = _SHORTEST_PAUSE
    while True:
        began = clock.monotonic()
        try:
            await run()
        except Exception as error:
            end_if_out_of_memory(error)
            _log.error("begins again after a failure", what=name, traceback=traceback.format_exc())
        if clock.monotonic() - began > _LONGEST_PAUSE:
            pause = _SHORTEST_PAUSE
        await clock.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
