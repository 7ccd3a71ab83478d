"""Sockets are open in the networks of a node only, and open again after failures."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from tarmac.agent.routerservices import RouterService, RouterServices
from tarmac.base.clock import ManualClock
from tarmac.base.tasks import background
from tarmac.datapath.interface import Datapath


class Wires:
    """Sockets by network; `trouble` makes the next ones fail."""

    def __init__(self) -> None:
        self.made: list[tuple[str, socket.socket]] = []
        self.trouble = 0

    async def bind(self, network: str, address: str, port: int, kind: str) -> socket.socket:
        if self.trouble:
            self.trouble -= 1
            raise OSError("the namespace is on its way")
        made = socket.socket()
        self.made.append((network, made))
        return made

    def open(self) -> list[str]:
        return sorted(network for network, made in self.made if made.fileno() >= 0)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_doors_follow_networks_and_open_again() -> None:
    wires, clock = Wires(), ManualClock()
    shut: list[asyncio.Future[None]] = []

    async def serve(_network: str, _listening: socket.socket) -> None:
        shut.append(asyncio.get_running_loop().create_future())
        await shut[-1]

    attending = RouterServices(
        cast("Datapath", wires), clock, [RouterService("names", "169.254.20.10", 53, "udp", serve)]
    )
    attending.set_networks(("a", "b"))
    async with background(attending.run(), "services of networks"):
        await settle()
        assert wires.open() == ["a", "b"]
        attending.set_networks(("b", "c"))
        await settle()
        assert wires.open() == ["b", "c"]
        wires.trouble = 1
        shut[-1].set_exception(OSError("gone"))
        await settle()
        assert wires.open() == ["b"]
        for _ in range(2):
            clock.advance(1)
            await settle()
        assert wires.open() == ["b", "c"]
    assert wires.open() == []
