"""A server of several processes, a node with a tunnel to one of them, and clients that know their process.

The kernel distributes connections among the processes. So a client requests `/readyz?verbose`, which names every worker
but the one that answers, and keeps the connection.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tarmac.agent.http.api import NodeApi
from tarmac.agent.http.auth import DenyAll
from tarmac.agent.http.tunnel import ServerTunnels
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import dynamic
from tarmac.server.security.certificates.pki import Pki
from tests.agent.http.processes import ProcessRuntime
from tests.agent.http.stage import StageFigures, StagePods, dial, visits_in
from tests.server.streams.planet import add_node, add_pod
from tests.support.tarmac_process import TarmacProcess

POD = "/api/v1/namespaces/default/pods/web"


@dataclass
class Crowd:
    """The server, its node and a client."""

    server: TarmacProcess
    count: int
    client: Client
    runtime: ProcessRuntime
    node: HttpConfig
    folder: Path

    def workers(self) -> dict[int, int]:
        """Return process ids by number of the worker, from the names of their audit logs."""
        found: dict[int, int] = {}
        for pid in children(self.server.pid):
            opened = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()]
            for name in opened:
                if match := re.search(r"audit-(\d+)\.log$", name):
                    found[int(match[1])] = pid
        return found

    async def connection(self, worker: int | None = None) -> Connection:
        """Open a connection to a given worker, or to any."""
        for _ in range(200):
            made = await self._connection()
            if worker is None or made.worker == worker:
                return made
            made.close()
        raise AssertionError(f"the kernel never chose worker {worker}")

    async def _connection(self) -> Connection:
        host, _, port = self.server.authority.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=self.server.client_context())
        made = Connection(reader, writer)
        body = await made.get("/readyz?verbose")
        others = {int(each) for each in re.findall(r"worker-(\d+)", body.decode())}
        made.worker = next(each for each in range(self.count) if each not in others)
        return made


class Connection:
    """An open connection; `worker` is the number of the process that serves it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.worker = -1

    @property
    def port(self) -> int:
        """The local port."""
        return self.writer.get_extra_info("sockname")[1]

    async def get(self, target: str) -> bytes:
        """Return the body of a response of any status."""
        self.writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(20):
            head = await self.reader.readuntil(b"\r\n\r\n")
            if length := re.search(rb"(?i)content-length: (\d+)", head):
                return await self.reader.readexactly(int(length[1]))
            body = b""
            while size := int(await self.reader.readline(), 16):
                body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
            return body

    async def upgrade(self, target: str, protocol: str = "v5.channel.k8s.io") -> None:
        """Upgrade to a WebSocket."""
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        upgrade = f"Connection: Upgrade\r\nUpgrade: websocket\r\n{key}Sec-WebSocket-Protocol: {protocol}\r\n"
        self.writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n".encode())
        async with asyncio.timeout(30):
            head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head

    def send(self, channel: int, data: bytes) -> None:
        """Send a message on a channel; the mask is four zeros."""
        body = bytes((channel,)) + data
        assert len(body) < 126
        self.writer.write(bytes((0x82, 0x80 | len(body))) + bytes(4) + body)

    async def hears(self, expected: bytes) -> bool:
        """Return true once the expected bytes arrive; servers do not mask frames, so their content is readable."""
        seen = b""
        with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            async with asyncio.timeout(20):
                while expected not in seen:
                    chunk = await self.reader.read(4096)
                    if not chunk:
                        return False
                    seen += chunk
        return expected in seen

    def close(self) -> None:
        """Close the connection."""
        self.writer.transport.abort()


@asynccontextmanager
async def crowd(folder: Path, store: str, count: int = 3) -> AsyncGenerator[Crowd]:
    """Serve until the block ends."""
    process = TarmacProcess(
        folder / "data", "--store", store, "--processes", str(count), "--controllers=serviceaccount"
    )
    server = await asyncio.to_thread(process.start)
    clock, runtime = SystemClock(), ProcessRuntime({"main": "running"})
    client = Client(HttpTransport(load(str(server.kubeconfig)).http), clock, Randomness())
    await runtime.start()
    (folder / "logs").mkdir()
    pods = StagePods(folder / "logs", [])
    pki = Pki(folder / "data" / "pki", clock)
    pair = pki.node("n1")
    config = HttpConfig(
        server.url, ca=pki.ca_file.read_text(), certificate=pair.certificate.decode(), key=pair.key.decode()
    )
    api = NodeApi(
        pods=pods,
        runtime=runtime.as_runtime(),
        connect=dial,
        node_metrics=StageFigures(),
        authorizer=DenyAll(),
        clock=clock,
        consoles=visits_in(folder / "recordings"),
    )

    async def servers() -> list[str]:
        return [server.url]

    tunnels = asyncio.ensure_future(ServerTunnels(api, "n1", lambda: config, servers, clock, Randomness()).run())
    try:
        await add_node(client)
        await _account(client)
        await add_pod(client, pods)
        yield Crowd(server, count, client, runtime, config, folder)
    finally:
        tunnels.cancel()
        with suppress(asyncio.CancelledError):
            await tunnels
        await client.close()
        await runtime.stop()
        if server.running():
            await asyncio.to_thread(server.stop)


async def _account(client: Client) -> None:
    async with asyncio.timeout(40):
        while not (await client.resource(dynamic("v1", "serviceaccounts", "ServiceAccount")).list("default")).items:
            await asyncio.sleep(0.1)


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def peer_ports(pid: int, port: int) -> set[int]:
    """Return the client ports of connections to a port of a process."""
    inodes = set[str]()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if match := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(each)):
                inodes.add(match[1])
    found: set[int] = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        local, remote, state = words[1], words[2], words[3]
        if state == "01" and words[9] in inodes and int(local.rpartition(":")[2], 16) == port:
            found.add(int(remote.rpartition(":")[2], 16))
    return found
