"""A revoked user certificate at a node's own port, where no server stands in between."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from tarmac.agent.http import openstreams
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.client.http import HttpConfig
from tarmac.client.targets.untyped import NODES
from tarmac.client.websockets import WebSocket, open_websocket
from tarmac.controllers.revoking import revoke
from tarmac.server.security.certificates.issuing import KeyPair
from tarmac.wire.channels import V4, V5
from tests.security.wire import Attacker
from tests.server.streams.planet import Planet, planet


async def caller(world: Planet, pair: KeyPair) -> Attacker:
    """Return a client of the node with a certificate."""
    context = ssl.create_default_context(cadata=world.pki.ca_file.read_text())
    file = world.home / "caller.pem"
    file.write_bytes(pair.certificate + pair.key)
    context.load_cert_chain(file)
    node = await world.client.resource(NODES).get("n1")
    return Attacker(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], context)


async def test_a_revoked_certificate_is_refused_by_nodes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.agent.http.auth._CERTIFICATE_SECONDS", 0.0)  # a positive decision is not cached
    async with planet(tmp_path, tunnelled=False) as world:
        now = SystemClock().now()
        jane = world.pki.authority.issue_client("jane", ("system:masters",), now)
        joe = world.pki.authority.issue_client("joe", ("system:masters",), now)
        assert (await (await caller(world, jane)).get("/pods")).status == 200
        await revoke(world.client, "jane")
        for path in ("/pods", "/metrics", "/containerLogs/default/web/main"):
            answer = await (await caller(world, jane)).get(path)
            assert answer.status == 403, (path, answer)
        assert (await (await caller(world, joe)).get("/pods")).status == 200


EXEC = "/exec/default/web/main?input=1&output=1&command=cat"
WAYS = {
    "exec": (EXEC, V5),
    "attach": ("/attach/default/web/main?output=1&input=1", V5),
    "port-forward": ("/portForward/default/web?port={port}", V4),
}


async def session(world: Planet, pair: KeyPair, way: str, port: int = 0) -> WebSocket:
    """An open stream of a caller with a certificate."""
    target, protocol = WAYS[way]
    url = f"https://127.0.0.1:{(await caller(world, pair)).port}"
    config = HttpConfig(url, world.pki.ca_file.read_text(), pair.certificate.decode(), pair.key.decode())
    return await open_websocket(config, target.format(port=port), [protocol], Randomness())


async def ended(stream: WebSocket) -> bool:
    async with asyncio.timeout(20):
        while await stream.receive() is not None:
            pass
    return True


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize("way", list(WAYS))
async def test_an_open_session_ends_when_the_callers_certificate_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(openstreams, "REVIEW_INTERVAL", 0.05)
    async with planet(tmp_path, tunnelled=False) as world, await asyncio.start_server(silent, "127.0.0.1", 0) as pod:
        now, port = SystemClock().now(), pod.sockets[0].getsockname()[1]
        jane = world.pki.authority.issue_client("jane", ("system:masters",), now)
        joe = world.pki.authority.issue_client("joe", ("system:masters",), now)
        streams = [await session(world, each, way, port) for each in (jane, joe)]
        await revoke(world.client, "jane")
        assert await ended(streams[0])
        await streams[1].send(b"\0still here")  # a session of another user goes on
        if way == "exec":
            while (message := await streams[1].receive()) != b"\1still here":
                assert message is not None
        streams[1].close()


async def test_a_log_that_is_followed_ends_when_the_callers_certificate_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openstreams, "REVIEW_INTERVAL", 0.05)
    async with planet(tmp_path, tunnelled=False) as world:
        (tmp_path / "logs" / "1.log").write_text("2026-01-01T00:00:00.000000000Z stdout F hello\n")
        jane = world.pki.authority.issue_client("jane", ("system:masters",), SystemClock().now())
        attacker = await caller(world, jane)
        reader, writer = await asyncio.open_connection("127.0.0.1", attacker.port, ssl=attacker.context)
        writer.write(b"GET /containerLogs/default/web/main?follow=true HTTP/1.1\r\nHost: node\r\n\r\n")
        async with asyncio.timeout(20):
            assert b"hello" in await reader.readuntil(b"hello\n")
            await revoke(world.client, "jane")
            assert b"HTTP/1.1" not in await reader.read()
        writer.close()


def test_a_session_lasts_at_most_ten_seconds_after_a_revocation() -> None:
    assert openstreams.REVIEW_INTERVAL + openstreams.REVIEW_TIMEOUT < 10
