"""A connection to the platform's registry, for pushing one file with the protocol of OCI registries.

The registry is on the loopback address of the machine that runs `tarmac up`, and its certificate names it. The API
server issues the tokens, for the user of the kubeconfig; they are valid for a minute and renewed in time.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tarmac.api.repositories import BYTES, PULL, PUSH, REGISTRY, TOKENS_PATH, Repository
from tarmac.base.clock import Clock
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig
from tarmac.client.requests import query_string
from tarmac.client.transport import ClientRequest

_TIMEOUT: Final = 60.0
_TOKEN_USE: Final = 30.0  # seconds; half of the time that a token is valid
_TOKEN_TIMEOUT: Final = 30.0


class UploadRefused(Exception):
    """The upload is not possible; the message gives the reason and the remedy."""


class RegistryAway(Exception):
    """The registry did not answer, or failed: a retry may succeed."""


class Answer(NamedTuple):
    """A complete response; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def reason(self) -> str:
        """Return the message of an error, for people."""
        try:
            return str(json.loads(self.body)["errors"][0]["message"])
        except (ValueError, KeyError, IndexError, TypeError):
            return f"it answered {self.status}"


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """Host and port of the registry."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class _Connection(http.client.HTTPSConnection):
    """Connects to an address, and expects the registry's certificate there."""

    def __init__(self, address: RegistryAddress, tls: ssl.SSLContext) -> None:
        super().__init__(REGISTRY, address.port, timeout=_TIMEOUT, context=tls)
        self._address = address
        self._tls = tls

    def connect(self) -> None:
        plain = socket.create_connection((self._address.host, self._address.port), self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=REGISTRY)


class RegistryConnection:
    """Requests to one registry, one at a time. All calls block."""

    def __init__(self, address: RegistryAddress, config: HttpConfig) -> None:
        self.address = address
        self._tls = ssl.create_default_context(cadata=config.ca)
        self._connection: _Connection | None = None

    def call(self, method: str, target: str, token: str, body: bytes = b"", media_type: str = "") -> Answer:
        """Send one request. Raises RegistryAway; UploadRefused if no registry listens there."""
        headers = {"Authorization": f"Bearer {token}", "Content-Length": str(len(body))}
        headers |= {"Content-Type": media_type} if media_type else {}
        try:
            connection = self._connection = self._connection or _Connection(self.address, self._tls)
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            found = Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise UploadRefused(f"{self.address}: not the registry of this cluster ({error.verify_message})") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise RegistryAway(f"the registry at {self.address} cannot be reached: {error}") from error
        if found.status >= 500:
            self.close()
            raise RegistryAway(f"the registry at {self.address} failed: {found.reason()}")
        return found

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class RegistryTokens:
    """Tokens for one repository, from the API server."""

    def __init__(self, client: Client, repository: Repository, clock: Clock) -> None:
        self._client = client
        self._repository = repository
        self._clock = clock
        self._token = ""
        self._asked_at = 0.0

    async def get(self, size: int) -> str:
        """Return a valid token for pushing `size` more bytes. Raises UploadRefused, ClientError."""
        now = self._clock.monotonic()
        if not self._token or now - self._asked_at > _TOKEN_USE:
            self._token, self._asked_at = await self._ask(size), now
        return self._token

    def forget(self) -> None:
        """Ask for a new token next time."""
        self._token = ""

    async def _ask(self, size: int) -> str:
        scope = f"repository:{self._repository}:{PULL},{PUSH}"
        query = query_string({"service": REGISTRY, "scope": scope, BYTES: size})
        reply = await self._client.transport.request(ClientRequest("GET", TOKENS_PATH, query, timeout=_TOKEN_TIMEOUT))
        answer = Answer(reply.status, {}, reply.body)
        if reply.status != 200:
            raise UploadRefused(f"{self._repository}: {answer.reason()}")
        return str(json.loads(reply.body)["token"])


def relative(location: str) -> str:
    """Return the path and query of a Location, whatever host it names: requests go to the known address only."""
    found = urlsplit(location)
    return f"{found.path}?{found.query}" if found.query else found.path
