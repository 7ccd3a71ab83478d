"""Connections shared with a partner survive the loss of their gateway, also those with a changed port.

Nodes 3 and 4 may carry the address. Pods a, b and c have opened connections from the same ports, so that under one
address only the first keeps them; in one more connection only the server sends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.datapath.egress import EgressState
from tarmac.datapath.linux.egress.statesync import queued_messages, settings
from tarmac.runtimes.parts import PartMissing, find_program
from tests.datapath.egress_worlds import DIAL, SOURCE1, ExternalWorld, Service, source
from tests.datapath.segment import TARGET
from tests.datapath.worlds import PATIENCE, RealWorld

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]

SHARED = Service([source(each, SOURCE1) for each in "abc"], ports=(("TCP", 8000, 8000), ("TCP", 8002, 8002)))
PORTS = range(40001, 40005)
PARTNER = {3: "198.18.0.4", 4: "198.18.0.3"}
_PATIENT = 3.0  # seconds to wait for a lost packet: several retransmission times


@pytest.fixture
def conntrackd() -> Path:
    try:
        return find_program("conntrackd")
    except PartMissing as missing:
        pytest.fail(f"connections cannot be shared in this test: {missing}")


def state(node: int, *, shared: bool = True) -> EgressState:
    return replace(SHARED.state(node), partner=PARTNER.get(node, "") if shared else "")


async def apply(lan: ExternalWorld, program: Path | None, *, shared: bool = True) -> None:
    assert isinstance(lan.world, RealWorld)
    for node in (3, 4, 1, 2):
        external = lan.world.node(node).external
        external.state_sync.program = program
        assert not await external.apply(state(node, shared=shared))
    lan.carry(3, SOURCE1)


async def synced(lan: ExternalWorld, *nodes: int) -> None:
    """Wait until gateways share their connections."""
    async with asyncio.timeout(PATIENCE):
        for node in nodes:
            external = lan.world.node(node).external
            await external.mend()
            while external.state_sync.partner != PARTNER[node]:
                await asyncio.sleep(0.02)
                await external.mend()


async def known(lan: ExternalWorld, node: int, number: int) -> None:
    """Wait until a gateway knows this many connections."""
    transits = {way.transit for each in state(node).sources for way in each.exits}
    async with asyncio.timeout(PATIENCE):
        while len((await lan.world.node(node).external.connections(transits, 100)).carried) < number:
            await asyncio.sleep(0.02)


class Streams:
    """Twelve connections with requests and responses, and one in which only the server sends."""

    def __init__(self, lan: ExternalWorld, stack: AsyncExitStack) -> None:
        self._lan, self._stack, self._loop = lan, stack, asyncio.get_running_loop()
        self.asking: list[socket.socket] = []
        self.heard = asyncio.Event()
        self._pushed: socket.socket | None = None

    async def begin(self) -> None:
        for sandbox in "abc":
            self.asking += [await self._dial(sandbox, 8000, port) for port in PORTS]
        segment = self._lan.frames()
        listening = segment.lab.socket(segment.target, socket.AF_INET, socket.SOCK_STREAM)
        self._stack.callback(listening.close)
        listening.bind((TARGET, 8002))
        listening.listen()
        silent = await self._dial("c", 8002, 40001)
        self._pushed, _ = await self._loop.sock_accept(listening)
        self._stack.callback(self._pushed.close)
        listens = asyncio.ensure_future(self._listen(silent))
        self._stack.callback(listens.cancel)
        assert await self.answers() == 12
        assert await self.pushes()

    async def answers(self, patience: float = PATIENCE) -> int:
        """Return how many of the twelve connections still work."""
        return sum(await asyncio.gather(*(self._asked(each, patience) for each in self.asking)))

    async def pushes(self, patience: float = PATIENCE) -> bool:
        """Return True if the server's data arrives, while the pod sends none."""
        assert self._pushed is not None
        self.heard.clear()
        await self._loop.sock_sendall(self._pushed, b"news")
        try:
            async with asyncio.timeout(patience):
                await self.heard.wait()
        except TimeoutError:
            return False
        return True

    async def _dial(self, sandbox: str, port: int, own: int) -> socket.socket:
        lab = self._lan.frames().lab
        made = lab.socket(self._lan.namespace(sandbox), socket.AF_INET, socket.SOCK_STREAM)
        self._stack.callback(made.close)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("0.0.0.0", own))
        async with asyncio.timeout(PATIENCE):
            await self._loop.sock_connect(made, (DIAL, port))
        return made

    async def _asked(self, client: socket.socket, patience: float) -> bool:
        try:
            async with asyncio.timeout(patience):
                await self._loop.sock_sendall(client, b"?")
                return await self._loop.sock_recv(client, 100) == SOURCE1.encode()
        except OSError:
            return False

    async def _listen(self, client: socket.socket) -> None:
        while await self._loop.sock_recv(client, 100):
            self.heard.set()


@asynccontextmanager
async def streams(lan: ExternalWorld) -> AsyncGenerator[Streams]:
    async with AsyncExitStack() as stack:
        made = Streams(lan, stack)
        await made.begin()
        yield made


def crash(lan: ExternalWorld, node: int, other: int) -> None:
    """Cut a gateway off on all sides, and let another carry its address."""
    lab = lan.frames().lab
    lab.command(lab.folder / "wire", f"ip link set m{node} down")
    lab.command(lab.folder / "lan", f"ip link set g{node} down")
    lan.drop(node, SOURCE1)  # the kernel's timeout does so
    lan.carry(other, SOURCE1)


def run_dir(world: RealWorld, node: int) -> Path:
    return world.lab.folder / f"run-{node}"


def processes(world: RealWorld, node: int) -> list[int]:
    """Return the processes in a node's egress namespace."""
    own = (run_dir(world, node) / "external" / "netns").stat().st_ino
    found: list[int] = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdecimal() and (each / "ns" / "net").stat().st_ino == own:
                found.append(int(each.name))
        except OSError:
            continue
    return found


async def gone(world: RealWorld, pid: int) -> None:
    """Wait for the kernel to end a killed process."""
    async with asyncio.timeout(PATIENCE):
        while pid in processes(world, 3):
            await asyncio.sleep(0.02)


async def test_every_connection_survives_a_crash_when_the_partner_knows_it(
    lan: ExternalWorld, conntrackd: Path
) -> None:
    await apply(lan, conntrackd)
    await synced(lan, 3, 4)
    async with streams(lan) as made:
        await known(lan, 4, 13)
        remembered = await lan.world.node(4).external.tracked()
        assert remembered is not None
        assert 13 <= remembered[0] < remembered[1]
        crash(lan, 3, 4)
        assert await made.pushes(), "only the server sends"
        assert await made.answers() == 12


async def test_without_the_program_all_works_but_what_only_one_gateway_knew_is_lost(lan: ExternalWorld) -> None:
    await apply(lan, None)
    for node in (3, 4):
        sync = lan.world.node(node).external.state_sync
        assert (sync.partner, sync.problem) == ("", "there is no conntrackd on this node")
        assert not await sync.possible()
        assert await sync.backlog() is None
    async with streams(lan) as made:
        crash(lan, 3, 4)
        assert not await made.pushes(_PATIENT)
        assert await made.answers(_PATIENT) == 4, "the connections with unchanged ports"


async def test_conntrackd_is_adopted_restarted_and_ends_with_the_need(lan: ExternalWorld, conntrackd: Path) -> None:
    world = lan.world
    assert isinstance(world, RealWorld)
    assert await world.node(3).external.state_sync.possible() is False, "the program's path is not configured"
    await apply(lan, conntrackd)
    assert await world.node(3).external.state_sync.possible()
    await synced(lan, 3, 4)
    [first] = processes(world, 3)
    assert os.sched_getscheduler(first) == os.SCHED_OTHER
    async with asyncio.timeout(PATIENCE):
        while await world.node(3).external.state_sync.backlog() != 0:
            await asyncio.sleep(0.05)

    await world.restart(3)
    external = world.node(3).external
    external.state_sync.program = conntrackd
    assert not await external.apply(state(3))
    assert external.state_sync.partner == PARTNER[3]
    assert processes(world, 3) == [first], "the process kept running"

    os.kill(first, signal.SIGKILL)
    await gone(world, first)
    external.state_sync._retry_at = 0.0
    await synced(lan, 3)
    [second] = processes(world, 3)
    assert second != first

    (run_dir(world, 3) / "statesync.pid").unlink()  # as if the agent was killed before it wrote the file
    assert not await external.apply(state(3, shared=False))
    assert processes(world, 3) == []
    assert not list(run_dir(world, 3).glob("statesync*"))
    [last] = processes(world, 4)
    await world.node(4).external.remove()
    line = Path(f"/proc/{last}/cmdline")
    assert not line.exists() or not line.read_bytes(), "ended, perhaps not reaped yet"
    assert not list(run_dir(world, 4).glob("statesync*"))


async def test_only_the_partner_is_listened_to(lan: ExternalWorld, conntrackd: Path) -> None:
    world = lan.world
    assert isinstance(world, RealWorld)
    await apply(lan, conntrackd)
    await synced(lan, 3, 4)
    lab = lan.frames().lab
    own = run_dir(world, 4) / "external" / "netns"
    rules = lab.command(own, "nft list chain inet tarmac-external inside")
    assert "ip6 saddr @partners udp dport 3780 accept" in rules
    partners = lab.command(own, "nft list set inet tarmac-external partners")
    assert partners.count("fd74:6172:6d63:fffe") == 1
    assert not await world.node(4).external.apply(state(4, shared=False))
    assert "fffe" not in lab.command(own, "nft list set inet tarmac-external partners")


def test_the_backlog_is_read_from_conntrackd_statistics() -> None:
    queues = {"txqueue": 3, "errorq": 9, "rsqueue": 4}
    said = "".join(f"queue {name}:\ncurrent elements:\t\t {number}\n\n" for name, number in queues.items())
    assert queued_messages(said) == 7
    assert "IPv6_Destination_Address fd00::2" in settings(Path("/run/x"), "fd00::1", "fd00::2", "tunnel")
