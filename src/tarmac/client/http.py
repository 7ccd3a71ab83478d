"""The transport over sockets: HTTP/1.1 with TLS, client certificates and bearer tokens.

One connection pool per server; where several servers are known, the next one is used when one does not respond
(`servers`). Watches hold a connection each, so a pool is unbounded. A token given as a file is read again after a
minute, because service-account tokens rotate under the running process.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tarmac import __version__
from tarmac.base.clock import Clock, SystemClock
from tarmac.client.connections import ClientConnection
from tarmac.client.errors import Disconnected, RequestTimeout
from tarmac.client.servers import ServerAt, Servers
from tarmac.client.transport import ClientRequest, Reply, StreamReply
from tarmac.http.tls import present

TOKEN_REFRESH_INTERVAL = 60.0
_BODILESS = frozenset(("GET", "HEAD", "DELETE"))  # without a body they need no content-length


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """The server and the client's credentials. Certificates and keys are PEM text."""

    url: str  # of the preferred server
    ca: str | None = None  # None trusts the system's CAs
    certificate: str | None = None
    key: str | None = None
    token: str | None = None
    token_file: str | None = None
    username: str | None = None
    password: str | None = None
    server_name: str | None = None
    insecure: bool = False  # no verification of the server at all
    compress: bool = True  # let the server compress large responses: good over slow links, a waste of time on fast ones
    user_agent: str = f"tarmac/{__version__}"
    servers: tuple[str, ...] = ()  # URLs of all servers of the cluster, where they are known


def tls_context(config: HttpConfig) -> ssl.SSLContext:
    """Return the TLS context of a configuration."""
    context = ssl.create_default_context(cadata=config.ca)
    if config.certificate and config.key:
        present(context, config.certificate.encode(), config.key.encode())
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class HttpTransport:
    """Requests over a pool of connections. Make it inside a running loop; `close` it when done."""

    def __init__(self, config: HttpConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        tls = tls_context(config) if urlsplit(config.url).scheme == "https" else None
        urls = (config.url, *config.servers)
        self._servers = Servers(urls, lambda url: ServerAt(url, tls, config.server_name), self._clock)
        self._constant = (
            f"\r\nuser-agent: {config.user_agent}\r\naccept-encoding: {'gzip' if config.compress else 'identity'}\r\n"
        )
        self._token = config.token
        self._token_read = -TOKEN_REFRESH_INTERVAL

    async def request(self, request: ClientRequest) -> Reply:
        """Send one request and return its whole response."""
        try:
            async with asyncio.timeout(request.timeout):
                server, connection = await self._open(request)
                try:
                    whole = await connection.read()
                finally:
                    server.connections.give_back(connection)
        except TimeoutError as error:
            # The server may accept connections and never respond: its idle connections would be as silent.
            self._servers.leave(self._servers.current)
            raise RequestTimeout(f"{request.method} {request.path}: no answer in {request.timeout} s") from error
        except Disconnected as error:
            raise self._with_request(request, error) from error
        return Reply(connection.status, connection.headers, whole)

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncGenerator[StreamReply]:
        """Send one request whose response is read chunk by chunk."""
        try:
            server, connection = await self._open(request)
        except Disconnected as error:
            raise self._with_request(request, error) from error
        try:
            yield StreamReply(connection.status, connection.headers, connection.chunks())
        finally:
            # Not kept, even if it is read: watches are reopened rarely.
            server.connections.drop(connection)

    def use(self, urls: Sequence[str]) -> None:
        """Use these servers from now on, the first one preferred."""
        self._servers.use(urls)

    async def close(self) -> None:
        """Close every connection."""
        await self._servers.close()

    def _with_request(self, request: ClientRequest, error: Disconnected) -> Disconnected:
        return type(error)(f"{request.method} {self._servers.current.url}{request.path}: {error}")

    async def _open(self, request: ClientRequest) -> tuple[ServerAt, ClientConnection]:
        method, path, query, headers, body, _ = request
        target = f"{path}?{query}" if query else path
        lines = [f"{name}: {value}\r\n" for name, value in (*headers.items(), *self._credentials())]
        if body or method not in _BODILESS:
            lines.append(f"content-length: {len(body)}\r\n")
        rest = f"{self._constant}{''.join(lines)}\r\n".encode() + body

        def message(server: ServerAt) -> bytes:
            return f"{method} {server.prefix}{target} HTTP/1.1\r\nhost: {server.authority}".encode() + rest

        return await self._servers.exchange(method, message)

    def _credentials(self) -> tuple[tuple[str, str], ...]:
        if self._config.token_file and self._clock.monotonic() - self._token_read >= TOKEN_REFRESH_INTERVAL:
            self._token = _read(self._config.token_file)
            self._token_read = self._clock.monotonic()
        if self._token:
            return (("authorization", f"Bearer {self._token}"),)
        if self._config.username:
            pair = f"{self._config.username}:{self._config.password or ''}"
            return (("authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"),)
        return ()


def _read(token_file: str) -> str:
    try:
        return Path(token_file).read_text().strip()
    except OSError as error:
        raise Disconnected(f"the token cannot be read: {error}") from error
