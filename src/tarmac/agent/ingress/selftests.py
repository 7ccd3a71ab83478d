"""Tests from this node that public addresses answer, as a gateway does before it announces them.

A test is a TCP connection of the node itself, which takes the same rules and tunnels as those of clients, and is closed
at once. One that fails is repeated twice from other ports, so that it reaches other endpoints.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.ingress import IngressDatapath
from tarmac.decide.ingress.selftests import SelfTest, State, next_record

TIMEOUT: Final = 1.0
_TRIES: Final = 3
_AT_A_TIME: Final = 8
_FIRST_AT_A_TIME: Final = 64
"""Addresses that wait for their first announcement have more room: those of one tenant may all time out."""

_log = log("ingress")


class SelfTests:
    """The tests of one node. `changed` is called when an address begins or ceases to pass, or becomes doubtful."""

    def __init__(self, datapath: IngressDatapath, clock: Clock, changed: Callable[[], None]) -> None:
        self._datapath, self._clock, self._changed = datapath, clock, changed
        self._ports: Mapping[str, int] = {}
        self._records: dict[str, SelfTest] = {}
        self._running: set[str] = set()
        self._wake = asyncio.Event()
        self.results: Counter[str] = Counter()
        self.seconds = 0.0  # of the slowest address when it passed last
        self._seconds: dict[str, float] = {}

    def ensure(self, ports: Mapping[str, int], known: Collection[str]) -> None:
        """Test exactly these addresses, each at its port.

        Results of `known` addresses are kept: one whose endpoints come back is announced at once.
        """
        self._ports = dict(ports)
        for address in self._records.keys() - {*known}:
            del self._records[address]
            self._seconds.pop(address, None)
        self._wake.set()

    @property
    def known(self) -> Collection[str]:
        """The addresses that are tested."""
        return [*self._ports]

    def states(self) -> dict[str, State]:
        """Return the state of each address that has been tested."""
        return {address: each.state for address, each in self._records.items()}

    def doubtful(self) -> frozenset[str]:
        """Return the addresses whose last tests failed."""
        return frozenset(address for address, each in self._records.items() if each.is_doubtful)

    async def run(self) -> None:
        """Test what is due, until cancelled."""
        room, first = asyncio.Semaphore(_AT_A_TIME), asyncio.Semaphore(_FIRST_AT_A_TIME)
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                now, number = self._clock.monotonic(), len(self._ports)
                # Tests run independently: an address that times out must not delay the rest.
                for address in self._ports.keys() - self._running:
                    record = self._records.get(address, SelfTest())
                    if record.due_at(number) <= now:
                        self._running.add(address)
                        group.create_task(self._test(address, first if record.state == "Pending" else room))
                await self._pause(number)

    async def _pause(self, number: int) -> None:
        """Wait until the next test is due, or other addresses are to be tested."""
        waiting = self._ports.keys() - self._running
        times = [self._records.get(each, SelfTest()).due_at(number) for each in waiting]
        left = None if not times else max(0.0, min(times) - self._clock.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._wake.wait()

    async def _test(self, address: str, room: asyncio.Semaphore) -> None:
        try:
            async with room:
                if (port := self._ports.get(address)) is not None:
                    await self._test_at(address, port)
        finally:
            self._running.discard(address)
            self._wake.set()

    async def _test_at(self, address: str, port: int) -> None:
        before = self._records.get(address, SelfTest())
        # A first test has one try: the address waits for it.
        problem = await self._connect(address, port, 1 if before.state == "Pending" else _TRIES)
        if self._ports.get(address) != port:
            return  # other rules meanwhile: the next test decides
        after = next_record(before, self._clock.monotonic(), passed=not problem)
        self._records[address] = after
        self.results["failed" if problem else "passed"] += 1
        if (before.state, before.is_doubtful) == (after.state, after.is_doubtful):
            return
        if after.is_doubtful and not before.is_doubtful:
            _log.warning("self-test of a public address failed", address=address, port=port, why=problem)
        self._changed()

    async def _connect(self, address: str, port: int, tries: int) -> str:
        """Return the problem; empty if a connection was made."""
        problem = ""
        for _ in range(tries):
            begun = self._clock.monotonic()
            try:
                await self._datapath.connect(address, port, TIMEOUT)
            except OSError as error:  # a timeout too
                problem = str(error) or repr(error)
            else:
                self._seconds[address] = self._clock.monotonic() - begun
                self.seconds = max(self._seconds.values())
                return ""
        return problem
