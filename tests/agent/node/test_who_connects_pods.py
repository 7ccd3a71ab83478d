"""Whether the agent makes networks or the cluster's plugins do is the server's to say, and remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tarmac.agent.node.networkmode import has_own_network
from tarmac.base.clock import ManualClock
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.transport import NO_HEADERS, Reply, Transport
from tests.agent.node.settings import agent_config


class Server:
    """Answers with a status, or not at all."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.asked = 0

    async def request(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Reply:
        self.asked += 1
        if not self.status:
            raise Disconnected("away")
        return Reply(self.status, {}, b"{}")


def client(server: Server, clock: ManualClock | None = None) -> Client:
    return Client(cast("Transport", server), clock or ManualClock())


async def decided(root: Path, status: int, **flags: Any) -> bool:
    return await has_own_network(agent_config(root, **flags), client(Server(status)))


async def test_a_server_with_networks_wants_them_made(tmp_path: Path) -> None:
    assert await decided(tmp_path, 200)
    assert not await decided(tmp_path, 404)


async def test_whoever_is_told_does_not_ask(tmp_path: Path) -> None:
    for told, own in (("tarmac", True), ("cni", False)):
        server = Server(0)
        assert await has_own_network(agent_config(tmp_path, network=told), client(server)) is own
        assert server.asked == 0


async def test_while_the_server_is_away_the_last_answer_holds(tmp_path: Path) -> None:
    assert await decided(tmp_path, 200)
    assert await decided(tmp_path, 0)


async def test_before_there_was_an_answer_it_is_waited_for(tmp_path: Path) -> None:
    server, clock = Server(0), ManualClock()
    asking = asyncio.ensure_future(has_own_network(agent_config(tmp_path), client(server, clock)))
    while server.asked < 1:
        await asyncio.sleep(0)
    assert not asking.done()
    server.status = 404
    while not asking.done():
        clock.advance(1)
        await asyncio.sleep(0)
    assert asking.result() is False
