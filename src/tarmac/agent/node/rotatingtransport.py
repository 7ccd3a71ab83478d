"""A transport with replaceable credentials.

New requests use the new credentials at once. Connections with the old ones are closed after a while, so that watches
reconnect with the new identity; the reflectors treat that as a normal disconnect and resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.transport import ClientRequest, Reply, StreamReply

_LAST_REQUESTS = 35.0  # longer than any request may take


class RotatingTransport:
    """A sequence of transports. Create it inside a running event loop; `close` it when done."""

    def __init__(self, config: HttpConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._current = HttpTransport(config, clock)
        self._closing = Tasks()

    def replace(self, config: HttpConfig) -> None:
        """Use new credentials from now on."""
        # The old transport is closed later: requests in flight complete with the old credentials.
        old, self._current = self._current, HttpTransport(config, self._clock)
        self.config = config
        self._closing.begin(self._end(old), "last requests under old credentials")

    def use(self, urls: Sequence[str]) -> None:
        """Set the servers, in order of preference."""
        self.config = replace(self.config, servers=tuple(urls))
        self._current.use(urls)

    async def request(self, request: ClientRequest) -> Reply:
        """Send one request and return its response."""
        return await self._current.request(request)

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        """Send one request and stream its response."""
        return self._current.stream(request)

    def shared(self, group: str, plural: str, key: str, raw: bytes, /) -> bytes:
        """Return `raw`: memory cannot be shared with another process."""
        return raw

    async def close(self) -> None:
        """Close every connection, old and new."""
        # Cancels the wait of `_end`, which then closes the old transport at once.
        await self._closing.close()
        await self._current.close()

    async def _end(self, old: HttpTransport) -> None:
        try:
            await self._clock.sleep(_LAST_REQUESTS)
        finally:
            await old.close()
