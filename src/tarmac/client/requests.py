"""Requests over one transport, with errors as exceptions, retries and deadlines.

A server that responds 429 or 503 *with a Retry-After* has not acted on the request, so it is sent again, a bounded
number of times and never earlier than asked. Nothing else is retried here: after a broken connection the outcome of a
write is unknown, and only the caller's next reconcile can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from urllib.parse import urlencode

import msgspec

from tarmac.api.schema import Json, JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.cooperative import CooperativeRunner
from tarmac.base.randomness import Randomness
from tarmac.client.errors import GarbledReply, api_error, retry_after
from tarmac.client.transport import NO_HEADERS, ClientRequest, Reply, StreamReply, Transport

Query = Mapping[str, str | int | bool | None]

REQUEST_TIMEOUT = 30.0
MAX_ATTEMPTS = 8
MAX_RETRY_DELAY = 30.0
JSON_BODY = {"accept": "application/json", "content-type": "application/json"}
JSON_ONLY = {"accept": "application/json"}

_decode = msgspec.json.Decoder().decode


class RequestClient:
    """Sends requests to one API server under one identity."""

    def __init__(self, transport: Transport, clock: Clock | None = None, randomness: Randomness | None = None) -> None:
        self.transport = transport
        self.clock = clock or SystemClock()
        self.randomness = randomness or Randomness()
        self.runner = CooperativeRunner(self.clock)  # runs large state replacements of informers cooperatively

    async def call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] = JSON_BODY,
        timeout: float = REQUEST_TIMEOUT,
    ) -> Reply:
        """Send one request that must succeed. Raises ApiError for refusals, TransportError for an unknown outcome."""
        request = ClientRequest(method, path, query_string(query), headers, body, timeout)
        attempt = 0
        while True:
            reply = await self.transport.request(request)
            if reply.status < 300:
                return reply
            error = api_error(reply.status, reply.body, reply.headers)
            wait = retry_after(error) if reply.status in (429, 503) else None
            attempt += 1
            if wait is None or attempt >= MAX_ATTEMPTS:
                raise error
            await self.clock.sleep(min(wait, MAX_RETRY_DELAY) + self.randomness.uniform(0, 0.1 * attempt))

    async def get_json(self, path: str, query: Query | None = None) -> JsonObject:
        """GET any document: discovery, version."""
        return decode_json((await self.call("GET", path, query, headers=JSON_ONLY)).body)

    def open(
        self, path: str, query: Query | None = None, headers: Mapping[str, str] = NO_HEADERS
    ) -> AbstractAsyncContextManager[StreamReply]:
        """GET a response without an end; the status is not checked yet."""
        return self.transport.stream(ClientRequest("GET", path, query_string(query), headers))

    async def close(self) -> None:
        """Release connections."""
        await self.transport.close()


def query_string(query: Query | None) -> str:
    """Encode the parameters that are set; booleans as Kubernetes writes them."""
    return _encoded(tuple(query.items())) if query else ""


@lru_cache(256)  # writers repeat the same few queries
def _encoded(parameters: tuple[tuple[str, str | int | bool | None], ...]) -> str:
    return urlencode(
        {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in parameters
            if value is not None and value != ""
        }
    )


def decode_json(body: bytes) -> Json:
    """Decode a JSON document. Raises GarbledReply."""
    try:
        return _decode(body)
    except (UnicodeError, msgspec.DecodeError) as error:
        raise GarbledReply(f"the server's answer is not JSON: {error}") from error


async def refuse(reply: StreamReply) -> ApiError:
    """Return the error of a stream that did not start."""
    body = b"".join([chunk async for chunk in reply.chunks if isinstance(chunk, bytes)])
    return api_error(reply.status, body, reply.headers)
