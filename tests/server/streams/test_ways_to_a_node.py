"""The server reaches a node over the tunnel that it opened, or at its address; other callers need rights."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from tarmac.server.security.certificates.issuing import KeyPair
from tests.server.streams.planet import NODES, Planet, planet

TUNNEL = "/tarmac/v1/nodes/n1/tunnel"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def dialled(tmp_path: Path) -> AsyncGenerator[Planet]:
    """A node without a tunnel."""
    async with planet(tmp_path, tunnelled=False) as running:
        yield running


def context(world: Planet, pair: KeyPair | None, folder: Path) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=world.pki.ca_file.read_text())
    if pair is not None:
        file = folder / "client.pem"
        file.write_bytes(pair.certificate + pair.key)
        made.load_cert_chain(file)
    return made


async def test_a_node_without_a_tunnel_is_dialled(dialled: Planet) -> None:
    assert not dialled.running.listener.upgraded
    said = await dialled.kubectl("exec", "-i", "web", "--", "cat", stdin=b"by address")
    assert said.out == b"by address"
    (dialled.pods.logs / "1.log").write_text("2026-11-15T12:00:00Z stdout F line\n")
    assert (await dialled.kubectl("logs", "web")).out == b"line\n"


async def test_a_node_asks_the_server_who_calls(dialled: Planet, tmp_path: Path) -> None:
    """The server knows certificates, tokens and rights; anonymous callers get 401."""
    node = await dialled.client.resource(NODES).get("n1")
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    url = f"https://127.0.0.1:{port}"
    cases: list[tuple[KeyPair | None, str, int]] = [
        (None, "", 401),
        (None, "Bearer nonsense", 401),
        (dialled.pki.admin(), "", 200),
        (dialled.pki.client("nobody"), "", 403),
        (dialled.pki.client("kube-apiserver-kubelet-client"), "", 200),
    ]
    for pair, token, status in cases:
        headers = {"Authorization": token} if token else {}
        connector = aiohttp.TCPConnector(ssl=context(dialled, pair, tmp_path))
        async with (
            aiohttp.ClientSession(connector=connector) as web,
            web.get(f"{url}/pods", headers=headers) as answer,
        ):
            assert answer.status == status, (pair, token, await answer.text())


async def test_a_service_account_is_let_in_by_its_token_and_its_rights(dialled: Planet, tmp_path: Path) -> None:
    node = await dialled.client.resource(NODES).get("n1")
    url = f"https://127.0.0.1:{node['status']['daemonEndpoints']['kubeletEndpoint']['Port']}"
    token = (await dialled.kubectl("create", "token", "default")).out.decode().strip()
    connector = aiohttp.TCPConnector(ssl=context(dialled, None, tmp_path))
    async with aiohttp.ClientSession(connector=connector, headers={"Authorization": f"Bearer {token}"}) as web:
        async with web.get(f"{url}/stats/summary") as answer:
            assert answer.status == 403
            assert "user=system:serviceaccount:default:default, verb=get" in await answer.text()
        role = ("create", "clusterrole", "stats", "--verb=get", "--resource=nodes/metrics,nodes/pods")
        assert (await dialled.kubectl(*role)).code == 0
        binding = ("create", "clusterrolebinding", "stats", "--clusterrole=stats")
        assert (await dialled.kubectl(*binding, "--serviceaccount=default:default")).code == 0
        for path, status in (("/metrics", 200), ("/pods", 200), ("/configz", 403), ("/exec/default/web/main", 403)):
            async with web.get(url + path) as answer:
                assert answer.status == status, path


async def test_only_the_node_itself_may_open_its_tunnel(world: Planet, tmp_path: Path) -> None:
    for pair in (world.pki.node("n2"), world.pki.admin(), world.pki.client("nobody"), None):
        connector = aiohttp.TCPConnector(ssl=context(world, pair, tmp_path))
        async with aiohttp.ClientSession(connector=connector) as web:
            for path in (TUNNEL, f"{TUNNEL}/token", "/tarmac/v1/nodes//tunnel"):
                async with web.get(world.running.url + path) as answer:
                    assert answer.status in (401, 403), (pair, path, answer.status)
    connector = aiohttp.TCPConnector(ssl=context(world, world.pki.node("n1"), tmp_path))
    async with aiohttp.ClientSession(connector=connector) as web:
        for path, status in ((f"{TUNNEL}/guessed", 404), ("/tarmac/v1/nodes/n1/other", 404), (TUNNEL, 400)):
            async with web.get(world.running.url + path) as answer:
                assert answer.status == status


async def test_a_tunnel_that_breaks_is_opened_again(world: Planet) -> None:
    for transport in list(world.running.listener.upgraded):
        transport.abort()
    await asyncio.sleep(0.1)
    async with asyncio.timeout(15):
        while (await world.kubectl("exec", "web", "--", "true")).code:
            await asyncio.sleep(0.1)


async def test_bytes_that_are_no_websocket_end_a_tunnel_and_the_server_lives_on(world: Planet, tmp_path: Path) -> None:
    port = world.running.listener.port
    tls = context(world, world.pki.node("n1"), tmp_path)
    for sent in (b"\x00" * 100, b"\xff" * 100, b"\x81\x05hello"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        writer.write(
            f"GET {TUNNEL} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a2V5\r\n"
            "Sec-WebSocket-Protocol: v1.tunnel.tarmac\r\n\r\n".encode()
        )
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        writer.write(sent)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()
    assert (await world.kubectl("get", "--raw", "/livez")).out == b"ok"


async def test_a_node_that_does_not_answer_is_told_about(world: Planet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.server.nodes.tunnels.OPEN_TIMEOUT", 0.2)
    monkeypatch.setattr("tarmac.agent.http.tunnel.ServerTunnels._serve", lambda *_: asyncio.sleep(5))
    said = await world.kubectl("logs", "web")
    assert said.code == 1
    assert "node n1 does not answer on its tunnel" in said.err


async def test_nothing_is_left_open_when_either_side_goes(world: Planet) -> None:
    before = len([each for each in world.running.listener.upgraded if not each.is_closing()])
    process = await world.start("exec", "web", "--", "sleep", "1000")
    async with asyncio.timeout(10):
        while not world.runtime.sessions:
            await asyncio.sleep(0.02)
    process.kill()
    await process.communicate()
    async with asyncio.timeout(10):
        while world.runtime.sessions:
            await asyncio.sleep(0.02)
        while len([each for each in world.running.listener.upgraded if not each.is_closing()]) > before:
            await asyncio.sleep(0.02)
