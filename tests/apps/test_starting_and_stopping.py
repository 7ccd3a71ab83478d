"""A control plane stops in the reverse order of its start, also when a part fails to stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from tarmac.apps import control_plane as composition
from tarmac.apps.control_plane import Address, control_plane
from tarmac.apps.layout import Layout
from tarmac.apps.serverleases import Announcement
from tarmac.controllers.manager import ControllerManager
from tarmac.http.listener import Listener
from tarmac.server.app import ApiServer
from tarmac.server.security.audit.auditlog import AuditLog
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.store.memory import MemoryStore

# The stopping method of each part, from the one that was started last to the one that was started first.
WAYS_OUT: list[tuple[str, type, str]] = [
    ("announcement", Announcement, "withdraw"),
    ("listener", Listener, "stop"),
    ("server", ApiServer, "stop"),
    ("audit", AuditLog, "close"),
    ("authorizer", Authorizer, "stop"),
    ("store", MemoryStore, "close"),
]
STOPPED = ["controllers", *(name for name, _, _ in WAYS_OUT)]


class Witness:
    """Records which parts stop, and lets one of them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stopped: list[str] = []
        self.failing = ""
        for name, owner, method in WAYS_OUT:
            monkeypatch.setattr(owner, method, self._noting(name, getattr(owner, method)))
        monkeypatch.setattr(ControllerManager, "run", self._working)

    def _noting(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def stop(part: Any) -> Any:
            self.stopped.append(name)
            done = original(part)
            if name != self.failing:
                return done
            if isawaitable(done):
                return _then_fail(done, name)
            raise OSError(f"the {name} does not stop")

        return stop

    async def _working(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.append("controllers")


async def _then_fail(done: Awaitable[None], name: str) -> None:
    await done
    raise OSError(f"the {name} does not stop")


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Witness:
    return Witness(monkeypatch)


@asynccontextmanager
async def running(directory: Path, port: int = 0) -> AsyncGenerator[None]:
    layout = Layout(directory, directory / "pki", directory / "secrets.key", "memory://")
    async with control_plane(layout, Address("127.0.0.1", port)):
        await asyncio.sleep(0)  # the controllers start
        yield


async def test_parts_stop_in_reverse_order_of_their_start(witness: Witness, tmp_path: Path) -> None:
    async with running(tmp_path):
        assert witness.stopped == []
    assert witness.stopped == STOPPED


@pytest.mark.parametrize("failing", ["listener", "server", "audit", "authorizer", "store"])
async def test_a_part_that_fails_to_stop_keeps_no_other_running(witness: Witness, tmp_path: Path, failing: str) -> None:
    witness.failing = failing
    with pytest.raises(OSError, match=f"the {failing} does not stop"):
        async with running(tmp_path):
            pass
    assert witness.stopped == STOPPED


async def test_an_address_that_cannot_be_withdrawn_is_logged_and_no_failure(
    witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def never(_announcement: Announcement) -> None:
        raise TimeoutError("nobody answers")

    monkeypatch.setattr(Announcement, "withdraw", never)
    async with running(tmp_path):
        pass
    assert witness.stopped == [name for name in STOPPED if name != "announcement"]
    assert "server addresses cannot be withdrawn" in capfd.readouterr().err


async def test_an_error_in_the_block_comes_out_after_everything_has_stopped(witness: Witness, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="of the block"):
        async with running(tmp_path):
            raise LookupError("of the block")
    assert witness.stopped == STOPPED


async def test_a_start_that_fails_stops_what_had_begun(witness: Witness, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        async with running(tmp_path, taken.getsockname()[1]):
            pytest.fail("somebody else has the port")
    assert witness.stopped == ["server", "audit", "authorizer", "store"]


async def test_a_start_that_is_interrupted_stops_what_had_begun(
    witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def waits(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def start() -> None:
        async with running(tmp_path):
            pytest.fail("it never gets so far")

    monkeypatch.setattr(composition, "ensure_initial_objects", waits)
    starting = asyncio.create_task(start())
    await begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert witness.stopped == ["server", "audit", "authorizer", "store"]
