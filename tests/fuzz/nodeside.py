"""The parts of an agent that read what tenants send, in a process of their own: the node's API and the name server.

    python -m tests.fuzz.nodeside FOLDER        prints `ready HTTP UDP TCP`, the ports

The runtime behind the API only checks its input: everything but our streams and data in small pieces is written to
FOLDER/wrong, as is every uncaught exception; FOLDER/stalls.jsonl records stalls of the loop. Every forwarded port leads
to a server of this process that echoes its input.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import uvloop

from tarmac.agent.dns.nameserver import NameServer
from tarmac.agent.dns.resolver import Resolver
from tarmac.agent.dns.upstream import Upstream
from tarmac.agent.dns.view import DnsView, EndpointRecord, NetworkAddress, PortRecord, ServiceRecord, SliceRecord
from tarmac.agent.http.api import NodeApi
from tarmac.api.schema import JsonObject
from tarmac.base.clock import SystemClock
from tarmac.base.garbage import collect_rarely
from tarmac.base.randomness import Randomness
from tarmac.http.listener import serve
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.wire.channels import STREAM_TYPE, V4
from tarmac.wire.spdy import SpdySession, StreamData, StreamOpened
from tarmac.wire.spdy.frames import Control, ControlFrameType, SpdyFrameReader
from tests.agent.http.processes import ProcessRuntime
from tests.agent.http.stage import Everybody, StageFigures, StagePods, dial, pod, visits_in
from tests.fuzz.watched import report_to
from tests.support.loopwatch import LoopWatch

HOME = "default/default"


class Wrong:
    """Records violations."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tell(self, what: str) -> None:
        with self._path.open("a") as file:
            file.write(what + "\n")

    def uncaught(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.tell(f"uncaught: {context.get('message')} {context.get('exception')!r}")


class LookingRuntime(ProcessRuntime):
    """Runs no program; echoes its input, and checks the requests."""

    def __init__(self, wrong: Wrong) -> None:
        super().__init__({"main": "running"})
        self._wrong = wrong

    def _serve(self, request: Request) -> Answer:
        self.asked.clear()
        headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", V4)]
        return UpgradeResponse(lambda transport, rest: _Looking(transport, self._wrong).data_received(rest), headers)


class _Looking(asyncio.Protocol):
    def __init__(self, transport: asyncio.Transport, wrong: Wrong) -> None:
        transport.set_protocol(self)
        self._transport = transport
        self._wrong = wrong
        self._frames = SpdyFrameReader()
        self._session = SpdySession(server=True)
        self._output = 0

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if isinstance(frame, Control) and (
                    frame.type != ControlFrameType.SYN_STREAM or len(frame.payload) > 200
                ):
                    self._wrong.tell(f"reached the runtime: {frame!r}")
            for event in self._session.receive(data):
                if isinstance(event, StreamOpened):
                    self._session.accept(event.stream)
                    self._output = event.stream if event.headers.get(STREAM_TYPE) == "stdout" else self._output
                elif isinstance(event, StreamData):
                    self._session.send(self._output, event.data)
        except ValueError as error:
            self._wrong.tell(f"reached the runtime: {error!r}")
            self._transport.abort()
        if not self._transport.is_closing():
            self._transport.write(self._session.take())


def view() -> DnsView:
    """Names to resolve."""
    made = DnsView()
    made.put_service(("default", "web"), ServiceRecord(("10.96.0.9",), (PortRecord("http", "tcp", 80),)))
    made.put_service(("default", "outside"), ServiceRecord(external="www.example.com"))
    made.put_service(("default", "many"), ServiceRecord())
    endpoints = tuple(
        EndpointRecord(f"e{each}", NetworkAddress(HOME, f"10.128.{each >> 8}.{each & 255}"), True)
        for each in range(1000)
    )
    made.put_slice(("default", "many"), "many-1", SliceRecord(HOME, (PortRecord("http", "tcp", 80),), endpoints))
    return made


async def _say_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def _bound(kind: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, kind)
    made.bind(("127.0.0.1", 0))
    if kind == socket.SOCK_STREAM:
        made.listen(64)
    made.setblocking(False)
    return made


async def run(folder: Path) -> None:
    """Serve until killed."""
    wrong, clock = Wrong(folder / "wrong"), SystemClock()
    asyncio.get_running_loop().set_exception_handler(wrong.uncaught)
    runtime = LookingRuntime(wrong)
    await runtime.start()
    behind = await asyncio.start_server(_say_back, "127.0.0.1", 0)
    behind_port = behind.sockets[0].getsockname()[1]

    async def connect(pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
        return await dial(pod, "127.0.0.1", behind_port, timeout)

    (folder / "1.log").write_text("2026-11-15T12:00:00Z stdout F hello\n")
    api = NodeApi(
        pods=StagePods(folder, [pod(), pod("term", "u2", tty=True)]), runtime=runtime.as_runtime(), connect=connect,
        node_metrics=StageFigures(), authorizer=Everybody(), clock=clock, consoles=visits_in(folder / "recordings"),
    )  # fmt: skip
    listener = await serve(api.handle, None)
    names = NameServer(Resolver(view()), Upstream((), clock, Randomness()), lambda network, link: [HOME])
    udp, tcp = _bound(socket.SOCK_DGRAM), _bound(socket.SOCK_STREAM)
    collect_rarely(10_000)  # as agents do
    watch = LoopWatch(report_to(folder / "stalls.jsonl"))
    async with asyncio.TaskGroup() as group:
        group.create_task(names.serve_datagrams(HOME, udp))
        group.create_task(names.serve_connections(HOME, tcp))
        print("ready", listener.port, udp.getsockname()[1], tcp.getsockname()[1], flush=True)
        await asyncio.Event().wait()
    watch.stop()


if __name__ == "__main__":
    uvloop.run(run(Path(sys.argv[1])))
