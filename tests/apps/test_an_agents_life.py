"""`tarmac agent` from start to end: signals, failures, and parts that do not stop. The node is a fake."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tarmac.apps import agent
from tarmac.apps.node.composing import NodeAgent
from tests.agent.node.settings import agent_told


async def forever() -> None:
    await asyncio.Event().wait()


class Puppet:
    """A fake node that records its calls."""

    name = "n"

    def __init__(self) -> None:
        self.said: list[str] = []
        self.work: Callable[[], Awaitable[None]] = forever
        self.is_ready = asyncio.Event()

    async def compose(self, _config: Any, stack: AsyncExitStack, _providers: None) -> Puppet:
        stack.push_async_callback(self._say, "the client is closed")
        stack.push_async_callback(self._say, "the runtime is closed")
        return self

    async def ready(self) -> None:
        await self.is_ready.wait()

    async def run(self) -> None:
        self.said.append("runs")
        try:
            await self.work()
        finally:
            self.said.append("has ended")

    async def drain(self) -> None:
        self.said.append("drains")

    async def _say(self, what: str) -> None:
        self.said.append(what)


CLOSED = ["has ended", "the runtime is closed", "the client is closed"]


@pytest.fixture
async def puppet(monkeypatch: pytest.MonkeyPatch) -> Puppet:
    made = Puppet()
    monkeypatch.setattr(NodeAgent, "compose", made.compose)
    monkeypatch.setattr(agent, "collect_rarely", lambda _new: None)  # of the process of these tests
    return made


async def run_until(puppet: Puppet, number: signal.Signals, tmp_path: Path) -> None:
    running = asyncio.create_task(agent.run(agent_told(tmp_path)))
    async with asyncio.timeout(10):
        while not puppet.said:
            await asyncio.sleep(0)
        os.kill(os.getpid(), number)
        await running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_node_and_then_what_it_stands_on(
    puppet: Puppet, tmp_path: Path, number: signal.Signals
) -> None:
    await run_until(puppet, number, tmp_path)
    assert puppet.said == ["runs", *CLOSED]


async def test_the_root_directory_is_readable_only_for_the_agents_user(puppet: Puppet, tmp_path: Path) -> None:
    root = tmp_path / "agent"
    running = asyncio.create_task(agent.run(agent_told(tmp_path, root_dir=root)))
    async with asyncio.timeout(10):
        while not puppet.said:
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


async def test_when_the_machine_goes_down_pods_are_ended_while_the_node_still_runs(
    puppet: Puppet, tmp_path: Path
) -> None:
    await run_until(puppet, signal.SIGPWR, tmp_path)
    assert puppet.said == ["runs", "drains", *CLOSED]


async def test_a_node_that_fails_says_why_and_leaves_nothing_open(puppet: Puppet, tmp_path: Path) -> None:
    async def fails() -> None:
        raise OSError("the disk is gone")

    puppet.work = fails
    with pytest.raises(OSError, match="the disk is gone"):
        await agent.run(agent_told(tmp_path))
    assert puppet.said == ["runs", *CLOSED]


async def test_a_part_that_does_not_end_is_left_behind(
    puppet: Puppet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    let_go = asyncio.Event()

    async def stubborn() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            await let_go.wait()

    puppet.work = stubborn
    monkeypatch.setattr(agent, "_SHUTDOWN_TIMEOUT", 0.01)
    await run_until(puppet, signal.SIGTERM, tmp_path)
    assert puppet.said == ["runs", *CLOSED[1:]], "everything else is closed"
    assert "tasks did not end in time and are abandoned" in capfd.readouterr().err
    let_go.set()
    await asyncio.sleep(0)


async def test_the_ready_line_comes_when_the_node_is_ready_and_not_before(
    puppet: Puppet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    running = asyncio.create_task(agent.run(agent_told(tmp_path)))
    while not puppet.said:
        await asyncio.sleep(0)
    assert capfd.readouterr().out == ""
    puppet.is_ready.set()
    async with asyncio.timeout(10):
        while not (told := capfd.readouterr().out):
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
    assert told == "tarmac agent ready n\n"
