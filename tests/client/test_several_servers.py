"""Clients that know every server of a cluster: the next one when one does not respond, and no write twice."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from tarmac.agent.node.rotatingtransport import RotatingTransport
from tarmac.apps.control_plane import local_transport
from tarmac.apps.serverfiles import follow_all
from tarmac.apps.serverleases import Announcement
from tarmac.base.clock import ManualClock, SystemClock
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected, ServerUnreachable
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import ServerContext, load, with_servers
from tarmac.client.serverlist import POLL_INTERVAL
from tarmac.client.servers import FAILBACK_SECONDS
from tarmac.client.transport import ClientRequest
from tarmac.server.security.certificates.pki import Pki, write_kubeconfig
from tarmac.server.security.users import User
from tests.client.backends import ADMIN, our_server
from tests.support.kubectl import kubectl_path
from tests.support.ports import free_ports

CONTROLLERS = User("system:serviceaccount:kube-system:tarmac-controllers", groups=("system:authenticated",))
NODE = User("system:node:n1", groups=("system:nodes", "system:authenticated"))


class Server:
    """Answers with its name, or breaks off once a request has arrived, or stays silent."""

    def __init__(self, name: str, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.name = name
        self.manner = "answers"
        self.heard: list[str] = []
        self.port = port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heard.append(head.split("\r\n")[0])
                assert f"host: 127.0.0.1:{self.port}" in head
                if self.manner == "breaks":
                    writer.transport.abort()
                    return
                if self.manner == "silent":
                    await asyncio.Event().wait()
                writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(self.name)}\r\n\r\n{self.name}".encode())
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            self._writers.discard(writer)
            writer.transport.abort()


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Server, Server]]:
    one, two = Server("one"), Server("two")
    await one.start()
    await two.start()
    yield one, two
    await one.stop()
    await two.stop()


async def said(transport: HttpTransport, method: str = "GET", timeout: float = 10.0) -> str:
    return (await transport.request(ClientRequest(method, "/x", timeout=timeout))).body.decode()


def knowing(*servers: Server, clock: ManualClock | None = None) -> HttpTransport:
    return HttpTransport(HttpConfig(servers[0].url, servers=tuple(each.url for each in servers)), clock)


async def test_the_next_server_is_used_while_the_first_is_away(pair: tuple[Server, Server]) -> None:
    """Writes too, since none of them was sent; afterwards requests go straight to the second server."""
    one, two = pair
    transport = knowing(one, two)
    assert [await said(transport), await said(transport, "POST")] == ["one", "one"]
    await one.stop()
    assert [await said(transport), await said(transport, "POST"), await said(transport, "PATCH")] == ["two"] * 3
    await one.start()
    assert await said(transport) == "two"
    await transport.close()


async def test_the_first_is_tried_again_after_five_minutes(pair: tuple[Server, Server]) -> None:
    one, two = pair
    clock = ManualClock()
    transport = knowing(one, two, clock=clock)
    await one.stop()
    assert await said(transport) == "two"
    clock.advance(FAILBACK_SECONDS - 1)
    await one.start()
    assert await said(transport) == "two"
    clock.advance(2)
    assert await said(transport) == "one"
    await one.stop()
    assert await said(transport) == "two"
    clock.advance(FAILBACK_SECONDS + 1)
    assert await said(transport) == "two", "it is still away"
    await transport.close()


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_write_that_was_sent_is_not_sent_again(pair: tuple[Server, Server], method: str) -> None:
    """The result is unknown. The next request goes to the next server."""
    one, two = pair
    one.manner = "breaks"
    transport = knowing(one, two)
    with pytest.raises(Disconnected) as broke:
        await said(transport, method)
    assert not isinstance(broke.value, ServerUnreachable)
    assert (len(one.heard), two.heard) == (1, [])
    assert await said(transport, method) == "two"
    await transport.close()


async def test_reads_are_retried_at_the_next_server(pair: tuple[Server, Server]) -> None:
    one, two = pair
    one.manner = "breaks"
    transport = knowing(one, two)
    assert await said(transport) == "two"
    async with transport.stream(ClientRequest("GET", "/watch")) as reply:
        assert b"".join([bytes(chunk) async for chunk in reply.chunks if isinstance(chunk, bytes)]) == b"two"
    two.manner = "breaks"
    with pytest.raises(Disconnected):
        await said(transport)
    assert len(one.heard) + len(two.heard) <= 6, "each gets a bounded number of requests"
    await transport.close()


async def test_a_server_that_answers_nothing_is_left(pair: tuple[Server, Server]) -> None:
    """A silent server delays one request, not each of them."""
    one, two = pair
    one.manner = "silent"
    transport = knowing(one, two)
    with pytest.raises(Exception, match=r"no answer in 0\.2 s"):
        await said(transport, timeout=0.2)
    assert await said(transport, timeout=5.0) == "two"
    await transport.close()


async def test_nobody_there_is_said(pair: tuple[Server, Server]) -> None:
    one, two = pair
    transport = knowing(one, two)
    await one.stop()
    await two.stop()
    with pytest.raises(ServerUnreachable, match="Connect call failed"):
        await said(transport, "POST")
    await transport.close()


async def test_a_connection_that_ends_early_without_a_word_is_not_said_to_be_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def reset(*_: object, **__: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", reset)
    transport = HttpTransport(HttpConfig("https://127.0.0.1:1"))
    with pytest.raises(ServerUnreachable, match="ended the connection during its handshake"):
        await said(transport)
    await transport.close()


async def test_servers_that_come_and_go(pair: tuple[Server, Server]) -> None:
    one, two = pair
    transport = HttpTransport(HttpConfig(one.url))
    assert await said(transport) == "one"
    await one.stop()
    with pytest.raises(ServerUnreachable):
        await said(transport)
    transport.use([one.url, two.url])
    assert await said(transport) == "two"
    transport.use([one.url])
    with pytest.raises(ServerUnreachable):
        await said(transport)
    await transport.close()


def _tls(pki: Pki, names: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pki.server_files(names) as files:
        context.load_cert_chain(*files)
    return context


async def test_silence_at_the_handshake_is_waited_for_one_second(tmp_path: Path) -> None:
    """The kernel of a hanging machine, or of a stopped process, still accepts connections."""
    pki = Pki(tmp_path / "pki", SystemClock())
    two = Server("two", _tls(pki, ["127.0.0.1"]))
    await two.start()
    kept: list[asyncio.StreamWriter] = []
    quiet = await asyncio.start_server(lambda _reader, writer: kept.append(writer), "127.0.0.1", 0)
    silent = f"https://127.0.0.1:{quiet.sockets[0].getsockname()[1]}"
    transport = HttpTransport(HttpConfig(silent, ca=pki.ca_file.read_text(), servers=(silent, two.url)))
    began = asyncio.get_running_loop().time()
    assert await said(transport, "POST") == "two"
    took = asyncio.get_running_loop().time() - began
    assert 0.9 < took < 6
    await transport.close()
    quiet.close()
    for writer in kept:
        writer.transport.abort()
    await asyncio.sleep(0)
    await two.stop()


async def test_each_is_verified_by_its_own_address(tmp_path: Path) -> None:
    """A listener with a certificate of the same authority for another name is no server."""
    pki = Pki(tmp_path / "pki", SystemClock())
    pair = pki.authority.issue_server("node", ["192.0.2.1"], SystemClock().now())
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    wrong = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    wrong.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    other = Server("other", wrong)
    await other.start()
    gone = f"https://127.0.0.1:{free_ports(1)[0]}"
    transport = HttpTransport(HttpConfig(gone, ca=pki.ca_file.read_text(), servers=(gone, other.url)))
    with pytest.raises(ServerUnreachable):
        await said(transport)
    assert other.heard == []
    await transport.close()
    await other.stop()


def test_a_kubeconfig_of_ours_names_all_servers_and_kubectl_does_not_mind(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki", SystemClock())
    file = tmp_path / "kubeconfig"
    write_kubeconfig(file, "https://192.0.2.1:6443", pki.ca_file.read_bytes(), pki.admin())
    found = load(str(file))
    assert (found.file, found.http.servers) == (file, ("https://192.0.2.1:6443",))
    urls = ["https://192.0.2.1:6443", "https://192.0.2.2:6443", "https://[2001:db8::3]:6443"]
    file.write_text(with_servers(file.read_text(), urls))
    assert load(str(file)).http.servers == tuple(urls)
    assert load(str(file)).http.certificate == found.http.certificate
    for words in (["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"], ["config", "get-contexts"]):
        command = [kubectl_path(), "--kubeconfig", str(file), *words]
        shown = subprocess.run(command, check=True, capture_output=True, text=True)
        assert "192.0.2.1" in shown.stdout or "tarmac" in shown.stdout
    foreign = yaml.safe_dump({"clusters": [{"name": "k", "cluster": {"server": urls[0]}}]})
    assert yaml.safe_load(with_servers(foreign, urls)) == yaml.safe_load(foreign), "it is its writer's"


@pytest.mark.parametrize("user", [ADMIN, CONTROLLERS, NODE], ids=["admin", "controllers", "node"])
async def test_long_running_clients_learn_and_keep_server_addresses(tmp_path: Path, user: User) -> None:
    """The client reads `default/kubernetes` every minute, by its own rights; the configured server stays the first."""
    file, clock = tmp_path / "own", ManualClock()
    async with our_server(tmp_path / "data") as running:
        pki = Pki(tmp_path / "data" / "pki", SystemClock())
        write_kubeconfig(file, "https://told:6443", pki.ca_file.read_bytes(), pki.admin())
        admin = Client(local_transport(running.server, ADMIN), clock)
        client = Client(local_transport(running.server, user), clock)
        transport = RotatingTransport(HttpConfig("https://told:6443"), clock)
        context = load(str(file))
        await Announcement(admin, ["192.0.2.1"], 6443).announce()
        async with background(follow_all(client, transport, context), "following"):
            await _until(file, ("https://told:6443", "https://192.0.2.1:6443"))
            await Announcement(admin, ["192.0.2.2"], 6443).announce()
            clock.advance(POLL_INTERVAL)
            await _until(file, ("https://told:6443", "https://192.0.2.1:6443", "https://192.0.2.2:6443"))
        assert file.stat().st_mode & 0o077 == 0
        await transport.close()
    foreign = ServerContext(context.http, file=None)
    await follow_all(client, transport, foreign)  # an immediate end: the addresses are of another cluster


async def _until(file: Path, urls: tuple[str, ...]) -> None:
    async with asyncio.timeout(10):
        while load(str(file)).http.servers != urls:
            await asyncio.sleep(0.01)
