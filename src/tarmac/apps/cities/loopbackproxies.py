"""Makes loopback services of the host reachable from a city at the same address and port.

A resolver at 127.0.0.53 and a registry at 127.0.0.1 exist only in the host's namespace. For each of them a socket
listens inside the city and relays to the real service. Registries change with the hosts.toml files that name them,
which containerd reads at every pull; these files are polled.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tarmac.apps.cities.layout import CityLayout
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.tasks import Tasks, background
from tarmac.datapath.linux import namespaces

_RESOLVERS = Path("/etc/resolv.conf")
_DNS = 53
_RESPONSE_TIMEOUT = 10.0
_MAX_QUESTIONS = 512
_CHUNK_SIZE = 1 << 16
_POLL_INTERVAL = 2.0
_log = log("cities")


class LoopbackService(NamedTuple):
    """A service on the host's loopback."""

    address: str
    port: int


def local_resolvers(text: str) -> list[LoopbackService]:
    """Return the nameservers of a resolv.conf that only this host can reach."""
    named = re.findall(r"^\s*nameserver\s+(\S+)", text, re.MULTILINE)
    return [LoopbackService(address, _DNS) for address in named if _is_loopback(address)]


def local_registries(texts: Iterable[str]) -> list[LoopbackService]:
    """Return the registries in containerd's hosts.toml files that only this host can reach."""
    urls = [urlsplit(url) for text in texts for url in re.findall(r'\[host\."([^"]+)"', text)]
    default = {"http": 80, "https": 443}
    found = [LoopbackService(url.hostname or "", url.port or default.get(url.scheme, 443)) for url in urls]
    return [service for service in dict.fromkeys(found) if _is_loopback(service.address)]


@asynccontextmanager
async def relays(city: CityLayout, certs: Path, clock: Clock) -> AsyncGenerator[None]:
    """Relay during the block."""
    resolvers = local_resolvers(_RESOLVERS.read_text()) if _RESOLVERS.exists() else []
    async with AsyncExitStack() as stack:
        for service in resolvers:
            stack.push_async_callback(_closed, await _relay(city, service))
            asked = await asyncio.to_thread(_inside, city.host.namespace, service, socket.SOCK_DGRAM)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_datagram_endpoint(lambda to=service: _Questions(to), sock=asked)
            stack.callback(transport.close)
        registries = _Registries(city, certs)
        stack.push_async_callback(registries.close)
        await registries.follow()
        await stack.enter_async_context(background(registries.run(clock), f"registries of {city.name}"))
        yield


class _Registries:
    """The relays to registries named in the files."""

    def __init__(self, city: CityLayout, certs: Path) -> None:
        self._city = city
        self._certs = certs
        self._relays: dict[LoopbackService, asyncio.Server] = {}
        self._trouble = ""

    async def run(self, clock: Clock) -> None:
        """Follow the files until cancelled."""
        while True:
            await clock.sleep(_POLL_INTERVAL)
            await self.follow()

    async def follow(self) -> None:
        """Start and stop relays. One that fails, because its port is in use in the city, is retried."""
        wanted = self._named()
        for service in self._relays.keys() - wanted:
            await _closed(self._relays.pop(service))
        troubles = [await self._begin(service) for service in wanted if service not in self._relays]
        trouble = "; ".join(filter(None, troubles))
        if trouble and trouble != self._trouble:
            _log.warning("local registry cannot be relayed, will retry", city=self._city.name, error=trouble)
        self._trouble = trouble

    async def _begin(self, service: LoopbackService) -> str:
        """Start a relay; return the error, or an empty string."""
        try:
            self._relays[service] = await _relay(self._city, service)
        except OSError as error:
            return f"{service.address}:{service.port}: {error.strerror}"
        return ""

    def _named(self) -> list[LoopbackService]:
        texts: list[str] = []
        for file in sorted(self._certs.glob("*/hosts.toml")):
            with contextlib.suppress(OSError):  # it was removed after being listed
                texts.append(file.read_text(errors="replace"))
        return local_registries(texts)

    async def close(self) -> None:
        """Stop all relays."""
        for server in self._relays.values():
            await _closed(server)


async def _relay(city: CityLayout, service: LoopbackService) -> asyncio.Server:
    listening = await asyncio.to_thread(_inside, city.host.namespace, service, socket.SOCK_STREAM)
    return await asyncio.start_server(_Joined(service), sock=listening)


class _Joined:
    """Connects each client with the service and copies data in both directions until both are done."""

    def __init__(self, service: LoopbackService) -> None:
        self._service = service

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*self._service)
        except OSError:
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_carry(reader, back), _carry(there, writer))
        finally:
            for end in (writer, back):
                end.close()


class _Questions(asyncio.DatagramProtocol):
    """Forwards each DNS question from its own socket, so that responses can be matched to clients."""

    def __init__(self, service: LoopbackService) -> None:
        self._service = service
        self._asking = Tasks()
        self._inside: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.DatagramTransport):
            self._inside = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._asking.cancel()

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        if len(self._asking) < _MAX_QUESTIONS:
            self._asking.begin(self._ask(data, addr), "relayed question")

    async def _ask(self, question: bytes, asker: tuple[str | Any, int]) -> None:
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in self._service.address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as outside, contextlib.suppress(OSError):
            outside.setblocking(False)
            outside.connect(self._service)
            async with asyncio.timeout(_RESPONSE_TIMEOUT):
                await loop.sock_sendall(outside, question)
                answer = await loop.sock_recv(outside, _CHUNK_SIZE)
            if self._inside is not None and not self._inside.is_closing():
                self._inside.sendto(answer, asker)


async def _carry(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await source.read(_CHUNK_SIZE):
            to.write(chunk)
            await to.drain()
        if to.can_write_eof():
            to.write_eof()


async def _closed(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()


def _inside(namespace: Path, service: LoopbackService, kind: socket.SocketKind) -> socket.socket:
    family = socket.AF_INET6 if ":" in service.address else socket.AF_INET
    with namespaces.inside(namespace):
        made = socket.socket(family, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(tuple(service))
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return made


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
