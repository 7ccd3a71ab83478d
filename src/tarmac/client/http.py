"""The transport over sockets: aiohttp with TLS, client certificates and bearer tokens.

One connection pool per server. Watches hold a connection each, so the pool has no bound of its own. A token given as a
file is read again after a minute, because service-account tokens rotate under the running process.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakSet

import aiohttp
from yarl import URL

from tarmac.base.clock import Clock, SystemClock
from tarmac.client.errors import Disconnected, RequestTimeout
from tarmac.client.transport import NO_HEADERS, Reply, StreamReply

TOKEN_LIFE = 60.0
READ_SIZE = 1 << 18
FAREWELL = 2.0  # seconds that closing connections are waited for


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where the server is and who we are. Certificates and keys are PEM text."""

    url: str
    ca: str | None = None  # None trusts the system's authorities
    certificate: str | None = None
    key: str | None = None
    token: str | None = None
    token_file: str | None = None
    username: str | None = None
    password: str | None = None
    server_name: str | None = None
    insecure: bool = False  # no verification of the server at all
    compress: bool = True  # let the server compress large answers: good over long lines, a waste of time on short ones
    user_agent: str = "tarmac"


def tls_context(config: HttpConfig) -> ssl.SSLContext:
    """The TLS side of a configuration."""
    context = ssl.create_default_context(cadata=config.ca)
    if config.certificate and config.key:
        # The TLS library takes these from a file only: a private one that is gone again at once.
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"{config.certificate}\n{config.key}")
            file.flush()
            context.load_cert_chain(file.name)
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class HttpTransport:
    """Requests over a pool of connections. Make it inside a running loop; `close` it when done."""

    def __init__(self, config: HttpConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._base = config.url.rstrip("/")
        context = tls_context(config) if self._base.startswith("https") else False
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context, socket_factory=self._socket),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            headers={
                "user-agent": config.user_agent,
                "accept-encoding": "gzip" if config.compress else "identity",
            },
            read_bufsize=READ_SIZE,
            auto_decompress=True,
        )
        self._token = config.token
        self._token_read = -TOKEN_LIFE

    async def request(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Reply:
        """One exchange."""
        try:
            async with asyncio.timeout(timeout), self._open(method, path, query, headers, body) as answer:
                return Reply(answer.status, _lower(answer), await answer.read())
        except TimeoutError as error:
            raise RequestTimeout(f"{method} {path}: no answer in {timeout} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Disconnected(f"{method} {self._base}{path}: {error}") from error

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, query: str = "", headers: Mapping[str, str] = NO_HEADERS
    ) -> AsyncGenerator[StreamReply]:
        """One exchange whose answer is read piece by piece."""
        opening = self._open(method, path, query, headers, b"")
        try:
            answer = await opening.__aenter__()
        except (aiohttp.ClientError, OSError) as error:
            raise Disconnected(f"{method} {self._base}{path}: {error}") from error
        try:
            yield StreamReply(answer.status, _lower(answer), _chunks(answer))
        finally:
            # Not released to the pool: an unfinished answer would have to be read to its end first.
            answer.close()

    async def close(self) -> None:
        """Close every connection.

        One that was dropped in the middle of something still takes leave of the server in the manner of TLS; a loop
        that ended before would leave its socket open.
        """
        await self._session.close()
        until = asyncio.get_running_loop().time() + FAREWELL
        # nothing tells of a socket's end
        while any(made.fileno() >= 0 for made in self._sockets) and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = socket.socket(*address[:3])
        self._sockets.add(made)
        return made

    def _open(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.client._RequestContextManager:
        url = URL(f"{self._base}{path}?{query}" if query else self._base + path, encoded=True)
        return self._session.request(
            method,
            url,
            data=body or None,
            headers={**headers, **self._credentials()},
            server_hostname=self._config.server_name,
            allow_redirects=False,
        )

    def _credentials(self) -> dict[str, str]:
        if self._config.token_file and self._clock.monotonic() - self._token_read >= TOKEN_LIFE:
            self._token = Path(self._config.token_file).read_text().strip()
            self._token_read = self._clock.monotonic()
        if self._token:
            return {"authorization": f"Bearer {self._token}"}
        if self._config.username:
            return {"authorization": aiohttp.encode_basic_auth(self._config.username, self._config.password or "")}
        return {}


def _lower(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, OSError) as error:
        raise Disconnected(f"the stream broke: {error}") from error
