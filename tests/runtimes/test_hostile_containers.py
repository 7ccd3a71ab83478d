"""Hostile text from containers: process names and the output of commands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.runtimes.containerd.orphans import _parent, _with_descendants
from tarmac.runtimes.cri.criruntime import MAX_EXEC_OUTPUT, CriRuntime
from tarmac.runtimes.interface import RuntimeRefused
from tests.support.cri_server import CriServer

# A process may have any name: here invalid text, and bytes that look like the fields after the name.
NAMED = r"import ctypes, sys; ctypes.CDLL(None).prctl(15, b'\xff\xfe) S 1 (\n'); print(flush=True); sys.stdin.read()"


def test_a_process_with_an_odd_name_has_a_parent_and_is_found() -> None:
    process = subprocess.Popen([sys.executable, "-c", NAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        own = Path("/proc/self").resolve()
        assert _parent(Path(f"/proc/{process.pid}")) == int(own.name)
        assert process.pid in _with_descendants([int(own.name)])
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[CriServer]:
    made = CriServer(tmp_path / "cri.sock", has_events=False)
    await made.start()
    yield made
    await made.stop()


async def test_the_output_of_a_command_is_bounded(server: CriServer, tmp_path: Path) -> None:
    runtime = CriRuntime(f"unix://{tmp_path / 'cri.sock'}")
    try:
        server.output = b"x" * (MAX_EXEC_OUTPUT // 2)
        assert (await runtime.exec("container", ["yes"], 5)).stdout == server.output
        server.output = b"x" * (MAX_EXEC_OUTPUT + 1)
        with pytest.raises(RuntimeRefused):
            await runtime.exec("container", ["yes"], 5)
    finally:
        await runtime.close()
