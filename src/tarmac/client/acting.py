"""Requests on behalf of somebody else: one connection and one credential, several identities.

The server checks that the sender may `impersonate` the user, then looks at the user's rights alone; its audit log names
both. Wrap the outermost transport: whoever wraps again acts as the user named last.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from tarmac.client.transport import NO_HEADERS, Reply, StreamReply, Transport

_HEADER = "impersonate-user"


class ActingAs:
    """Sends every request as `user`."""

    def __init__(self, inner: Transport, user: str) -> None:
        self._inner = inner
        self._user = user

    async def request(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Reply:
        """As the inner transport, as the user."""
        return await self._inner.request(method, path, query, {_HEADER: self._user, **headers}, body, timeout)

    def stream(
        self, method: str, path: str, query: str = "", headers: Mapping[str, str] = NO_HEADERS
    ) -> AbstractAsyncContextManager[StreamReply]:
        """As the inner transport, as the user."""
        return self._inner.stream(method, path, query, {_HEADER: self._user, **headers})

    async def close(self) -> None:
        """The inner transport belongs to whoever made it."""
