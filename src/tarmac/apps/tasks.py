"""Tasks that last as long as a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def ended(task: asyncio.Task[None]) -> AsyncGenerator[None]:
    """Cancel the task when the block is over, and wait for its end; if it had failed by then, its error comes out."""
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
