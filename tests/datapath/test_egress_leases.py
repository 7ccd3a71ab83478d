"""Addresses move between gateways by leases, with real datagrams between agents and real packets in the kernel.

Nodes 3 and 4 may carry; they and node 1 vote. All frames of gateways on the segment are captured: a frame under an
address that its sender's lease does not cover at that time fails the test.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from tarmac.agent.egress.leases.addressconfig import AddressConfig, PeerIdentity
from tarmac.agent.egress.leases.checkpoint import LeaseCheckpoint
from tarmac.agent.egress.leases.thread import LeaseThread
from tarmac.agent.egress.leases.transport import PeerTransport
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.datapath.linux import namespaces
from tarmac.decide.egress.lease import LEASE, RENEW
from tests.datapath.egress_worlds import (
    DIAL,
    GATEWAYS,
    KEP,
    SOURCE1,
    SOURCE2,
    SOURCE6,
    ExternalWorld,
    Service,
    source,
)
from tests.datapath.segment import SLACK, Period, connected
from tests.datapath.worlds import RealWorld

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]

VOTERS = (1, 3, 4)
BY_ITS_CLOCK = LEASE - RENEW  # the least time that a lease still has after the pause, in seconds


class WatchedKernel:
    """A gateway's kernel, which records for the capture when it may send under an address.

    While it is frozen, changes block, as during an endless change of rules.
    """

    def __init__(self, lan: ExternalWorld, number: int) -> None:
        assert isinstance(lan.world, RealWorld)
        self._segment, self._number, self._real = lan.frames(), number, lan.world.node(number).external
        self._thaw = threading.Event()
        self._freezer: threading.Thread | None = None

    def freeze(self) -> None:
        egress = self._real._egress
        assert egress is not None
        held = threading.Event()

        def hold() -> None:
            with egress.ruleset.lock:
                held.set()
                self._thaw.wait()

        self._freezer = threading.Thread(target=hold)
        self._freezer.start()
        held.wait()

    def thaw(self) -> None:
        self._thaw.set()
        if self._freezer is not None:
            self._freezer.join()

    def follow(self, owners: Mapping[str, str]) -> None:
        self._real.follow(owners)

    def carry(self, seconds: Mapping[str, float]) -> None:
        now = time.time()
        self._real.carry(seconds)
        ends = {address: now + left + SLACK for address, left in seconds.items()}
        self._segment.periods += [
            Period(self._number, address, now, end) for address, end in ends.items() if end > time.time()
        ]

    def drop(self, addresses: Sequence[str]) -> None:
        self._segment.drop(self._number, *addresses)

    def announce(self, addresses: Sequence[str]) -> None:
        self._real.announce(addresses)

    def probe(self, address: str) -> str:
        return self._real.probe(address)

    def carried(self) -> Mapping[str, float]:
        return self._real.carried()


class GuestClock(SystemClock):
    """The clock of a virtual machine: in a pause it stands still, and so does the thread that reads it.

    The thread stops when its timer wakes it, so that no response of a voter is on its way.
    """

    _WOKEN = 0.05  # seconds without a reading

    def __init__(self) -> None:
        self._runs, self._stopped = threading.Event(), threading.Event()
        self._runs.set()
        self._read, self._lost = time.monotonic(), 0.0

    def monotonic(self) -> float:
        now = time.monotonic()
        if not self._runs.is_set() and now - self._read >= self._WOKEN:
            self._stopped.set()
            self._runs.wait()
            self._lost += time.monotonic() - now
        self._read = time.monotonic()
        return self._read - self._lost

    def pause(self) -> None:
        """Pause, and wait until the thread has stopped."""
        self._stopped.clear()
        self._runs.clear()
        assert self._stopped.wait(5)

    def resume(self) -> None:
        self._runs.set()


class Agents:
    """The lease threads of all nodes, each in its machine's namespace."""

    def __init__(self, lan: ExternalWorld) -> None:
        assert isinstance(lan.world, RealWorld)
        self._lan, self._world, dice = lan, lan.world, Randomness()
        self._keys = {number: dice.randbytes(32) for number in (1, 2, 3, 4)}
        self._draw = dice.randbytes
        self.kernels: dict[int, WatchedKernel] = {}
        self.clocks: dict[int, GuestClock] = {}
        self.threads: dict[int, LeaseThread] = {}
        lan.frames().asked_for |= {SOURCE1, SOURCE2}

    async def start(self, number: int) -> None:
        kernel = self.kernels[number] = WatchedKernel(self._lan, number)
        machine = str(self._world.lab.machine(number))
        clock = self.clocks[number] = GuestClock()
        file = LeaseCheckpoint(self._world.lab.folder / f"leases-{number}.json")
        self.threads[number] = LeaseThread(
            f"n{number}", kernel, self._keys[number], file, clock, self._draw, lambda _: None,
            begin=partial(namespaces.enter, machine),
        )  # fmt: skip
        await self.serve(number)

    async def serve(self, number: int, but: int = 0) -> None:
        """Give a node the Gateways, without the candidate `but`."""
        terms = {address: self._terms(address, number, but) for address in (SOURCE1, SOURCE2)}
        await self.threads[number].serve(f"198.18.0.{number}", terms)

    def _public(self, number: int) -> bytes:
        return PeerTransport(self._keys[number], bytes(32), lambda _: True).key

    def _terms(self, address: str, number: int, but: int) -> AddressConfig:
        def named(numbers: Sequence[int]) -> dict[str, PeerIdentity]:
            return {f"n{n}": PeerIdentity(f"198.18.0.{n}", self._public(n)) for n in numbers if n != but}

        return replace(
            AddressConfig(address, named(GATEWAYS), {}, frozenset(["198.18.0.1", "198.18.0.2"])),
            voters={f"n{n}": PeerIdentity(f"198.18.0.{n}", self._public(n)) for n in VOTERS},
            can_own=number in GATEWAYS,
            routes_through=True,
        )

    async def owner(self, *others: int) -> int:
        """Wait until a node that is none of these carries the first address."""
        async with asyncio.timeout(10):
            while True:
                found = [each for each in self.threads if SOURCE1 in self.threads[each].owned and each not in others]
                if found:
                    return found[0]
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        for clock in self.clocks.values():
            clock.resume()
        for kernel in self.kernels.values():
            kernel.thaw()
        for thread in self.threads.values():
            await thread.close()

    def never_two(self) -> None:
        """Assert that no two nodes were allowed to send under an address at the same time."""
        periods = sorted(self._lan.frames().periods, key=lambda each: each.begin)
        for address in (SOURCE1, SOURCE2):
            until: dict[int, float] = {}
            for each in (each for each in periods if each.address == address):
                for node, end in until.items():
                    assert node == each.node or end <= each.begin + 0.05, f"{node} and {each.node} at once"
                until[each.node] = each.end  # a renewal replaces the previous period


@asynccontextmanager
async def agents(lan: ExternalWorld) -> AsyncGenerator[Agents]:
    await lan.apply(KEP)
    made = Agents(lan)
    try:
        for number in (1, 2, 3, 4):
            await made.start(number)
        yield made
    finally:
        await made.close()
    made.never_two()


@pytest.mark.serial
async def test_an_address_moves_when_its_agent_is_killed_cordoned_stopped_or_frozen(lan: ExternalWorld) -> None:
    async with agents(lan) as nodes, connected(lan.frames(), lan.namespace("a"), DIAL, 8000) as early:
        assert await early(0.1) in (None, SOURCE1)
        first = await nodes.owner()
        async with connected(lan.frames(), lan.namespace("a"), DIAL, 8000) as ask:
            assert await ask() == SOURCE1
            await nodes.threads[first].close()  # a killed agent releases nothing
            second = await nodes.owner(first)
            assert await ask() == SOURCE1, "the connection continues through the other gateway"
            await nodes.start(first)
            await asyncio.sleep(2)
            for number in (1, 2, 3, 4):
                await nodes.serve(number, but=second)
            began = time.monotonic()
            assert await nodes.owner(second) == first
            assert await ask() == SOURCE1
            assert time.monotonic() - began < 1.0, "a planned move"
            for number in (1, 2, 3, 4):
                await nodes.serve(number)
            await asyncio.sleep(1.2)  # until they have exchanged messages
            began = time.monotonic()
            await nodes.threads[first].hand_over()
            assert await nodes.owner(first) == second
            assert await ask() == SOURCE1
            assert time.monotonic() - began < 1.0, "a released lease"
            await nodes.threads[first].close()
            await nodes.start(first)
            await asyncio.sleep(2)
            nodes.kernels[second].freeze()
            began = time.monotonic()
            assert await nodes.owner(second) == first
            assert await ask() == SOURCE1
            assert time.monotonic() - began < 3.0, "the kernel's timeout"
            nodes.kernels[second].thaw()
            await asyncio.sleep(0.5)
            assert await ask() == SOURCE1
            assert SOURCE1 not in nodes.threads[second].owned


@pytest.mark.serial
async def test_a_paused_machine_drops_its_address_before_its_kernel_sends_under_it_again(lan: ExternalWorld) -> None:
    """The agent and its clock stop for longer than a lease, and the kernel's elements expire meanwhile."""
    async with agents(lan) as nodes, connected(lan.frames(), lan.namespace("a"), DIAL, 8000) as ask:
        first = await nodes.owner()
        clock, kernel, thread = nodes.clocks[first], nodes.kernels[first], nodes.threads[first]
        assert await ask() == SOURCE1
        await asyncio.to_thread(clock.pause)
        second = await nodes.owner(first)
        assert await ask() == SOURCE1, "through the other gateway"
        await asyncio.sleep(LEASE)
        assert SOURCE1 in thread.owned, "by its own clock, the lease continues"
        assert await asyncio.to_thread(kernel.carried) == {}
        clock.resume()
        resumed = time.monotonic()
        while SOURCE1 in thread.owned:
            assert SOURCE1 not in await asyncio.to_thread(kernel.carried)
            assert time.monotonic() - resumed < BY_ITS_CLOCK, "at the end of its lease, not by a refusal"
            await asyncio.sleep(0.005)
        assert SOURCE1 not in await asyncio.to_thread(kernel.carried)
        assert await ask() == SOURCE1
        assert await nodes.owner() == second


async def test_datagrams_of_strangers_change_nothing(lan: ExternalWorld) -> None:
    async with agents(lan) as nodes:
        owner = await nodes.owner()
        lab = lan.frames().lab
        with lab.socket(lab.machine(2), socket.AF_INET, socket.SOCK_DGRAM) as liar:
            for junk in (b"", b"TMX1", b"\xff" * 1400, b"TMX1" + bytes(500)):
                for number in VOTERS:
                    liar.sendto(junk, (f"198.18.0.{number}", 4801))
        await asyncio.sleep(0.5)
        assert await nodes.owner() == owner


async def test_a_stranger_on_the_segment_is_found_and_nobody_learns_a_wrong_address(lan: ExternalWorld) -> None:
    both = Service([source("a", SOURCE1), source("a", SOURCE6)])
    await lan.apply(both)
    segment, external = lan.frames(), lan.world.node(3).external
    segment.asked_for |= {SOURCE1, SOURCE6}
    assert [await asyncio.to_thread(external.probe, each) for each in (SOURCE1, SOURCE6)] == ["", ""]
    for address, length in ((SOURCE1, 24), (SOURCE6, 64)):
        extra = " nodad" if ":" in address else ""
        segment.lab.command(segment.stranger, f"ip address add {address}/{length} dev eth0{extra}")
    await asyncio.sleep(0.2)
    found = [await asyncio.to_thread(external.probe, each) for each in (SOURCE1, SOURCE6)]
    hardware = segment.lab.command(segment.stranger, "ip -br link show eth0").split()[2]
    assert found == [hardware, hardware]
    assert SOURCE1 not in segment.lab.command(segment.target, "ip neighbour"), "a probe updates no neighbour table"
