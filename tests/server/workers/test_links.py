"""Workers learn of each other, of each other's nodes and readiness; attacks with tokens and sockets."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tarmac.api.status import Forbidden, NotFound
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.base.signals import Signal
from tarmac.base.tasks import background
from tarmac.http.clientrequest import request_head, send_request
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Listener
from tarmac.http.messages import Request, Response, UpgradeResponse
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.server.nodes import tunnels as tunnels_module
from tarmac.server.nodes.tunnels import STREAM, NodeTunnels
from tarmac.server.security.users import User
from tarmac.server.workers import peers as peers_module
from tarmac.server.workers.peers import WorkerPeers
from tarmac.server.workers.sockets import WorkerSocket, is_ours, make_folder, socket_path, unix
from tarmac.server.workers.workerservice import WorkerService

CLOCK = SystemClock()
NODE = User("system:node:n1", groups=("system:nodes", "system:authenticated"))


class FakeTunnel:
    """A worker's tunnel to a node: records the tokens of its requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, token: str) -> None:
        self.asked.append(token)


class Worker:
    """A worker without a server around it."""

    def __init__(self, folder: Path, index: int, count: int) -> None:
        self.ready = True
        self.figures: dict[str, Callable[[], object]] = {}
        self.changed: Signal[[str, bool]] = Signal()
        self.peers = WorkerPeers(folder, index, count, CLOCK)
        self.tunnels = NodeTunnels(Randomness(), self.peers, self.changed)
        self.service = WorkerService(self.peers, self.tunnels, self.changed, lambda: self.ready, self.figures, CLOCK)

    def hold(self, node: str) -> FakeTunnel:
        tunnel = FakeTunnel()
        self.tunnels._nodes[node] = [cast("Any", tunnel)]
        self.changed(node, True)
        return tunnel

    async def brought(self, token: str, user: User = NODE, node: str = "n1") -> UpgradeResponse:
        """Return the response to a node that opens a stream here."""
        request = Request("GET", f"/tarmac/v1/nodes/{node}/tunnel/{token}", "", {"upgrade": STREAM}, b"", user=user)
        answer = self.tunnels.answer(request)
        found = await answer if isinstance(answer, Awaitable) else answer
        assert isinstance(found, UpgradeResponse)
        return found


@asynccontextmanager
async def workers(folder: Path, count: int = 3) -> AsyncGenerator[list[Worker]]:
    make_folder(folder)
    made = [Worker(folder, index, count) for index in range(count)]
    async with AsyncExitStack() as stack:
        for each in made:
            await stack.enter_async_context(background(each.service.run(), "links"))
        await until(lambda: all(each.service.states()["ready"] == count for each in made))
        yield made


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not check():
            await asyncio.sleep(0.01)


async def test_each_hears_what_nodes_the_others_hold_until_they_go(tmp_path: Path) -> None:
    async with workers(tmp_path / "run") as (zero, one, two):
        zero.hold("n1")
        await until(lambda: one.peers.holder("n1") == 0 and two.peers.holder("n1") == 0)
        assert zero.peers.holder("n1") is None
        assert one.tunnels.dial("n1") is not None
        assert one.tunnels.dial("n2") is None
        zero.tunnels._nodes.clear()
        zero.changed("n1", False)
        await until(lambda: one.peers.holder("n1") is None)


async def test_the_lowest_alive_has_the_duties_and_a_lost_worker_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_module, "PEER_TIMEOUT", 0.2)
    make_folder(tmp_path / "run")
    one = Worker(tmp_path / "run", 1, 2)
    async with background(one.service.run(), "links"):
        async with background(Worker(tmp_path / "run", 0, 2).service.run(), "links"):
            await until(lambda: one.service.states() == {"ready": 2, "unready": 0, "missing": 0})
            assert (one.peers.is_lowest, one.peers.lowest()) == (False, 0)
            assert one.peers.checks()["worker-0"]() is None
        await until(lambda: one.service.states() == {"ready": 1, "unready": 0, "missing": 1})
        await until(lambda: one.peers.is_lowest)
        await until(lambda: one.peers.checks()["worker-0"]() is not None)


async def test_a_worker_that_is_not_ready_is_noticed_by_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_module, "PEER_TIMEOUT", 0.2)
    async with workers(tmp_path / "run", 2) as (zero, one):
        zero.ready = False
        await until(lambda: one.peers.checks()["worker-0"]() is not None)
        assert one.service.states() == {"ready": 1, "unready": 1, "missing": 0}
        zero.ready = True
        await until(lambda: one.peers.checks()["worker-0"]() is None)


async def test_figures_and_usage_are_asked_of_the_others_and_the_silent_are_left_out(tmp_path: Path) -> None:
    async with workers(tmp_path / "run") as (zero, one, two):
        zero.figures |= {"/metrics": lambda: [1], "/usage/nodes": lambda: [{"metadata": {"name": "n1"}}]}
        assert await two.peers.gathered("/metrics") == {0: [1]}  # the other worker has no metrics
        one.figures |= {"/metrics": lambda: [2]}
        assert await two.peers.gathered("/metrics") == {0: [1], 1: [2]}
        assert await two.peers.usage("nodes") == [{"metadata": {"name": "n1"}}]


async def test_a_stream_comes_in_by_a_third_worker(tmp_path: Path) -> None:
    async with workers(tmp_path / "run") as (zero, one, two):
        tunnel = zero.hold("n1")
        await until(lambda: one.peers.holder("n1") == 0)
        heard: list[bytes] = []

        class Hearing(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                heard.append(data)

        dial = one.tunnels.dial("n1")
        assert dial is not None
        dialling = asyncio.ensure_future(dial(Hearing))
        await until(lambda: bool(tunnel.asked))
        assert tunnel.asked[0].startswith("1-")
        answer = await two.brought(tunnel.asked[0])
        ours, theirs = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        answer.start(transport, b"early ")
        await dialling
        theirs.sendall(b"late")
        await until(lambda: b"".join(heard) == b"early late")
        theirs.close()


async def asked(holder: Worker, asker: Worker) -> tuple[str, asyncio.Future[Any]]:
    """Return the token of a worker's request to a node, and the future of its stream."""
    tunnel = holder.hold("n1")
    await until(lambda: asker.peers.holder("n1") == holder.peers.index)
    dial = asker.tunnels.dial("n1")
    assert dial is not None
    dialling = asyncio.ensure_future(cast("Any", dial(asyncio.Protocol)))
    await until(lambda: bool(tunnel.asked))
    return tunnel.asked[0], dialling


async def test_a_token_of_another_node_is_nobodys(tmp_path: Path) -> None:
    async with workers(tmp_path / "run") as (zero, one, two):
        token, dialling = await asked(zero, one)
        other = User("system:node:n2", groups=("system:nodes", "system:authenticated"))
        for worker in (zero, one, two):
            with pytest.raises(NotFound):
                await worker.brought(token, other, "n2")
            with pytest.raises(Forbidden):
                await worker.brought(token, other, "n1")
            with pytest.raises(Forbidden):
                await worker.brought(token, User("jane"), "n1")
        assert not dialling.done()
        dialling.cancel()


async def test_a_token_is_good_once(tmp_path: Path) -> None:
    async with workers(tmp_path / "run") as (zero, one, two):
        token, dialling = await asked(zero, one)
        ours, theirs = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        (await two.brought(token)).start(transport, b"")
        await dialling
        for worker in (zero, one, two):
            with pytest.raises(NotFound):
                await worker.brought(token)
        transport.close()
        theirs.close()


async def test_a_token_is_good_for_a_moment_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels_module, "OPEN_TIMEOUT", 0.2)
    async with workers(tmp_path / "run") as (zero, one, two):
        token, dialling = await asked(zero, one)
        with pytest.raises(TimeoutError, match="n1 does not answer on its tunnel"):
            await dialling
        with pytest.raises(NotFound):
            await two.brought(token)


@pytest.mark.parametrize(
    "token", ["1-aaaaaaaaaaaaaaaaaaaaaa\r\nX: y", "1-../../metrics/aaaaaaaaaa", "1-", "9-" + "a" * 22, "1-" + "a" * 900]
)
async def test_a_token_that_is_none_reaches_no_worker(tmp_path: Path, token: str) -> None:
    async with workers(tmp_path / "run") as (zero, one, _):
        with pytest.raises(NotFound):
            await zero.brought(token)
        assert one.tunnels._wanted == {}


async def test_a_holder_asks_for_nothing_that_is_no_token(tmp_path: Path) -> None:
    async with workers(tmp_path / "run", 2) as (zero, _):
        tunnel = zero.hold("n1")
        for token in ("x", "1-short", '1-aaaaaaaaaaaaaaaaaaaaaa"}'):
            assert not zero.tunnels.ask_here("n1", token)
        assert tunnel.asked == []


async def test_sockets_are_for_our_own_user_at_both_ends(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_folder(folder)
    listener = Listener(lambda _: Response(200, b"secret"), ListenerLimits())
    await listener.start([], 0, None)
    path, head = socket_path(folder, 0), request_head("GET", "/metrics", "worker", [("Connection", "close")])
    for ours, served in ((True, True), (False, False)):
        door = WorkerSocket(path, listener, lambda _, ours=ours: ours)
        door.open()
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(folder.stat().st_mode)) == (0o600, 0o700)
        if served:
            assert await (await send_request(unix(path), head, 5)).read(100) == b"secret"
            with pytest.raises(PermissionError):  # the socket belongs to another process
                await send_request(unix(path, lambda _: False), head, 5)
        else:
            with pytest.raises((ConnectionBroken, OSError)):
                await (await send_request(unix(path), head, 5)).read(100)
        door.close()
        assert not path.exists()
    await listener.stop(grace=0.1)


async def test_the_kernel_says_whose_process_it_is() -> None:
    one, other = socket.socketpair()
    assert is_ours(one)
    assert is_ours(other)
    one.close()
    other.close()


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="belongs to another"):
        make_folder(tmp_path / "run")


async def test_a_socket_of_a_killed_worker_is_in_nobodys_way(tmp_path: Path) -> None:
    make_folder(tmp_path / "run")
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(socket_path(tmp_path / "run", 0)))
    left.close()
    async with workers(tmp_path / "run", 2) as (zero, _):
        assert zero.peers.lowest() == 0
