"""A program is killed when its caller is cancelled, and the caller stays cancelled."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tarmac.agent.node.programs import run_program


async def test_a_program_returns_its_output_and_exit_code() -> None:
    done = await run_program("sh", "-c", "cat; echo no >&2; exit 3", stdin=b"yes")
    assert (done.code, done.out, done.err) == (3, b"yes", b"no\n")
    assert "yes" not in repr(done)


async def test_it_does_not_outlive_its_caller(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    running = asyncio.ensure_future(run_program("sh", "-c", f"echo $$ > {file}; exec sleep 60"))
    while not (file.exists() and file.read_text().strip()):
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait((running,))
    assert running.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


async def test_a_cancellation_at_any_moment_is_one() -> None:
    for step in range(30):
        running = asyncio.ensure_future(run_program("true"))
        await asyncio.sleep(step * 0.0005)
        if running.done():
            continue
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled() or running.exception() is None
