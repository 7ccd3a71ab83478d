"""A real listener on loopback for each test: in the clear, over the loop's TLS, and over the accelerator's TLS."""

from __future__ import annotations

import asyncio
import importlib.util
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tarmac.base.clock import SystemClock
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Accelerate, Listener, serve
from tarmac.http.messages import Handler, Request
from tarmac.http.tls import server_context
from tarmac.server.security.certificates.pki import Pki

MODES = ["plain", "tls", "tls-accelerated"]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"), SystemClock())


@dataclass
class Server:
    """Starts listeners for one test and knows how to reach them."""

    mode: str
    pki: Pki
    listeners: list[Listener] = field(default_factory=list[Listener])
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    async def start(
        self,
        handler: Handler,
        limits: ListenerLimits | None = None,
        authenticates: Callable[[Request], bool] | None = None,
    ) -> Listener:
        context = None
        if self.mode != "plain":
            with self.pki.server_files([]) as files:
                context = server_context(*files, self.pki.ca_file)
        accelerate: Accelerate = "on" if self.mode == "tls-accelerated" else "off"
        listener = await serve(
            handler, context, "127.0.0.1", 0, limits, accelerate=accelerate, authenticates=authenticates
        )
        self.listeners.append(listener)
        return listener

    @property
    def port(self) -> int:
        return self.listeners[-1].port

    @property
    def url(self) -> str:
        return f"{'http' if self.mode == 'plain' else 'https'}://127.0.0.1:{self.port}"

    def client_context(self, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext | None:
        if self.mode == "plain":
            return None
        context = ssl.create_default_context(cafile=str(self.pki.ca_file))
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context

    async def connect(self, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = self.client_context(options.pop("certificate", None))
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, **options)
        self.writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
        for listener in self.listeners:
            await listener.stop(grace=0.2)
        await asyncio.sleep(0.001)


@pytest.fixture(params=MODES)
async def server(request: pytest.FixtureRequest, pki: Pki) -> AsyncIterator[Server]:
    if request.param == "tls-accelerated" and importlib.util.find_spec("aiofastnet") is None:
        pytest.skip("the TLS accelerator (extra `fast`) is not installed")
    started = Server(request.param, pki)
    yield started
    await started.close()


@pytest.fixture
async def plain_server(pki: Pki) -> AsyncIterator[Server]:
    started = Server("plain", pki)
    yield started
    await started.close()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers (lower case) and body of one response, chunked or not."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while chunk := await read_chunk(reader):
            body += chunk
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(head[0].split(" ")[1]), headers, body


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readuntil(b"\r\n"), 16)
    return (await reader.readexactly(size + 2))[:-2]


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for an effect of another task or thread."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)
