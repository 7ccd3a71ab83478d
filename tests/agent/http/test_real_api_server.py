"""kubectl through a real kube-apiserver to our node's API, which the server dials with its certificate, over SPDY."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.agent.http.api import NodeApi
from tarmac.agent.http.auth import ReviewAuthorizer
from tarmac.agent.http.serving import NodeListener
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.targets.target import dynamic
from tarmac.server.security.certificates.pki import Pki
from tests.agent.http.processes import ProcessRuntime
from tests.agent.http.stage import StageFigures, StagePods, dial, visits_in
from tests.server.streams.planet import add_node, add_pod
from tests.support.kubectl import kubectl_path
from tests.support.peer import Peer

pytestmark = [pytest.mark.peers, pytest.mark.slow]

WEB = "streams-web"  # the server is shared by several suites


class Kubectl:
    """kubectl against the real server."""

    def __init__(self, peer: Peer, home: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(peer.kubeconfig), "HOME": str(home)}
        self._binary = os.environ.get("TARMAC_PEER_KUBECTL") or kubectl_path()

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            self._binary, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environment
        )

    async def __call__(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(stdin), 30)
        assert process.returncode == 0, (out, err)
        return out


@pytest.fixture
async def node(peer: Peer, tmp_path: Path) -> AsyncGenerator[StagePods]:
    """Register our node's address with the real server."""
    clock = SystemClock()
    client = Client(HttpTransport(HttpConfig(peer.url, ca=peer.ca, token=peer.token)), clock, Randomness())
    runtime, pods = ProcessRuntime({"main": "running"}), StagePods(tmp_path, [])
    await runtime.start()
    certificate, key, ca = tmp_path / "node.crt", tmp_path / "node.key", tmp_path / "ca.crt"
    pair = Pki(tmp_path / "pki", clock).authority.issue_server("streams-node", ["127.0.0.1"], clock.now())
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    ca.write_text(peer.ca)
    api = NodeApi(
        pods=pods, runtime=runtime.as_runtime(), connect=dial, node_metrics=StageFigures(),
        authorizer=ReviewAuthorizer(client, "streams-node", clock), clock=clock,
        consoles=visits_in(tmp_path / "recordings"),
    )  # fmt: skip
    listener = NodeListener(api, "127.0.0.1", 0, ca)
    serving = asyncio.ensure_future(listener.run(certificate, key))
    while not listener.port:
        await asyncio.sleep(0.01)
    await add_node(client, "streams-node", "127.0.0.1", listener.port)
    await add_pod(client, pods, WEB, "streams-node")
    try:
        yield pods
    finally:
        pods_client = client.resource(dynamic("v1", "pods", "Pod"))
        await pods_client.delete(WEB, "default", grace=0)
        await client.resource(dynamic("v1", "nodes", "Node", namespaced=False)).delete("streams-node")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await runtime.stop()
        await client.close()


async def test_kubectl_reaches_our_node_through_a_real_server(node: StagePods, peer: Peer, tmp_path: Path) -> None:
    kubectl = Kubectl(peer, tmp_path)
    (node.logs / "1.log").write_text("2026-11-15T12:00:00Z stdout F line\n")
    assert await kubectl("logs", WEB) == b"line\n"
    data = os.urandom(500_000)
    assert await kubectl("exec", "-i", WEB, "--", "cat", stdin=data) == data
    failing = await kubectl.start("exec", WEB, "--", "sh", "-c", "exit 9")
    await failing.communicate()
    assert failing.returncode == 9
    await _port_forward(kubectl)


async def _port_forward(kubectl: Kubectl) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    process = await kubectl.start("port-forward", f"pod/{WEB}", f":{server.sockets[0].getsockname()[1]}")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
            reader, writer = await asyncio.open_connection("127.0.0.1", int(line.split("127.0.0.1:")[1].split(" ")[0]))
            writer.write(b"hello\n")
            assert await reader.readline() == b"HELLO\n"
            writer.close()
    finally:
        process.send_signal(signal.SIGINT)
        await process.communicate()
        server.close()
