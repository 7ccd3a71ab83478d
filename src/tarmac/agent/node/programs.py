"""Runs another program to its end, or kills it on cancellation."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Exit code and output of a program."""

    code: int
    out: bytes
    err: bytes

    def __repr__(self) -> str:
        """Omit the output: it may contain a key."""
        return f"Outcome({self.code})"


async def run_program(*command: str, stdin: bytes = b"") -> ProgramResult:
    """Run a program to its end. Raises OSError if it cannot be started."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        out, err = await process.communicate(stdin)
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        # A killed program stays a zombie until it is waited for.
        await process.wait()
        raise
    assert process.returncode is not None, "it has ended"
    return ProgramResult(process.returncode, out, err)
