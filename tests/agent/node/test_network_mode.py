"""The server's resources decide whether the agent or CNI plugins connect pods; the decision is cached on disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.node.networkmode import has_own_network
from tarmac.base.clock import ManualClock
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.transport import ClientRequest, Reply, Transport
from tests.agent.node.settings import agent_config


class Server:
    """A server that responds with a status, or is unreachable for 0; it serves Networks and `served`."""

    def __init__(self, status: int, *served: str) -> None:
        self.status = status
        self.served = ("networks", *served)
        self.asked = 0

    async def request(self, request: ClientRequest) -> Reply:
        self.asked += 1
        if not self.status:
            raise Disconnected("away")
        return Reply(self.status, {}, msgspec.json.encode({"resources": [{"name": name} for name in self.served]}))


def client(server: Server, clock: ManualClock | None = None) -> Client:
    return Client(cast("Transport", server), clock or ManualClock())


OURS = "podendpoints"


async def decided(root: Path, status: int, *served: str, **flags: Any) -> bool:
    return await has_own_network(agent_config(root, **flags), client(Server(status, *served)))


async def test_a_server_that_says_where_pods_are_wants_networks_made(tmp_path: Path) -> None:
    assert await decided(tmp_path, 200, OURS)
    assert not await decided(tmp_path, 404)


async def test_networks_that_are_only_defined_are_not_made(tmp_path: Path) -> None:
    assert not await decided(tmp_path, 200)


async def test_the_flag_for_cni_skips_the_query(tmp_path: Path) -> None:
    server = Server(0)
    assert not await has_own_network(agent_config(tmp_path, network="cni"), client(server))
    assert server.asked == 0


async def test_networks_that_are_asked_for_where_they_cannot_be_made_are_an_error(tmp_path: Path) -> None:
    for status in (200, 404):
        with pytest.raises(BadConfig, match=r"does not serve podendpoints.*Use --network cni"):
            await decided(tmp_path, status, network="tarmac")
    assert await decided(tmp_path, 200, OURS, network="tarmac")


async def test_networks_that_are_asked_for_do_not_wait_for_a_server_that_is_away(tmp_path: Path) -> None:
    assert await decided(tmp_path, 0, network="tarmac")
    assert await decided(tmp_path, 200, OURS, network="tarmac")
    server = Server(0)
    assert await has_own_network(agent_config(tmp_path, network="tarmac"), client(server))
    assert server.asked == 0, "the cached decision is used"


async def test_an_answer_that_a_kill_left_empty_is_asked_for_again(tmp_path: Path) -> None:
    config = agent_config(tmp_path)
    (config.root_dir / "network").write_text("")
    clock, server = ManualClock(), Server(0, OURS)
    asking = asyncio.create_task(has_own_network(config, client(server, clock)))
    while server.asked < 2:
        await asyncio.sleep(0)
        clock.advance(1)
    server.status = 200
    while not asking.done():
        await asyncio.sleep(0)
        clock.advance(1)
    assert asking.result()


async def test_while_the_server_is_away_the_last_answer_holds(tmp_path: Path) -> None:
    assert await decided(tmp_path, 200, OURS)
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
