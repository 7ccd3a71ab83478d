"""The lease thread works in an agent with many open descriptors."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tarmac.agent.egress.leases.addressconfig import AddressConfig, PeerIdentity
from tarmac.agent.egress.leases.checkpoint import LeaseCheckpoint
from tarmac.agent.egress.leases.thread import LeaseThread
from tarmac.agent.egress.leases.transport import PeerTransport
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness

ADDRESS = "192.0.2.5"
PRIVATE = bytes(range(32))


class Kernel:
    """A kernel that accepts every address."""

    def follow(self, owners: Mapping[str, str]) -> None:
        """Ignore the route."""

    def carry(self, seconds: Mapping[str, float]) -> None:
        """Accept the address."""

    def drop(self, addresses: Sequence[str]) -> None:
        """Drop nothing."""

    def announce(self, addresses: Sequence[str]) -> None:
        """Announce nothing."""

    def probe(self, address: str) -> str:
        return ""


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    with ExitStack() as opened:
        for _ in range(1100):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        yield


async def carried(folder: Path, port: int) -> LeaseThread:
    """Run a thread that votes for itself, and return it once it carries the address."""
    own = {"a": PeerIdentity("127.0.0.1", PeerTransport(PRIVATE, bytes(32), lambda _: True).key)}
    thread = LeaseThread(
        "a", Kernel(), PRIVATE, LeaseCheckpoint(folder / "leases.json"), SystemClock(), Randomness().randbytes,
        lambda _: None, port,
    )  # fmt: skip
    await thread.serve("127.0.0.1", {ADDRESS: AddressConfig(ADDRESS, own, own, can_own=True)})
    async with asyncio.timeout(20):
        while ADDRESS not in thread.owned:
            await asyncio.sleep(0.01)
    return thread


@pytest.mark.usefixtures("many_descriptors")
async def test_an_agent_with_more_than_a_thousand_descriptors_carries(tmp_path: Path, unused_udp_port: int) -> None:
    thread = await carried(tmp_path, unused_udp_port)
    await thread.close()
