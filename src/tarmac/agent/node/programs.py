"""Running another program to its end, or ending it when nobody wants the answer any more."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How it ended and what it said."""

    code: int
    out: bytes
    err: bytes

    def __repr__(self) -> str:
        """Without what it said: that may be a key."""
        return f"Outcome({self.code})"


async def run_program(*command: str, stdin: bytes = b"") -> ProgramResult:
    """Run to its end. Raises OSError when it cannot be started."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        out, err = await process.communicate(stdin)
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    assert process.returncode is not None, "it has ended"
    return ProgramResult(process.returncode, out, err)
