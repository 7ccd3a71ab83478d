"""Impersonation: one connection and one credential, several identities.

The server checks that the sender may `impersonate` the user, then evaluates the user's rights alone; its audit log
names both. Wrap the outermost transport: with nested wrappers, the outermost user applies.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport

_HEADER = "impersonate-user"


class ActingAs:
    """Sends every request as `user`."""

    def __init__(self, inner: Transport, user: str) -> None:
        self._inner = inner
        self._user = user

    async def request(self, request: ClientRequest) -> Reply:
        """Send through the inner transport, as the user."""
        return await self._inner.request(self._as_user(request))

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        """Stream through the inner transport, as the user."""
        return self._inner.stream(self._as_user(request))

    async def close(self) -> None:
        """Do nothing: the inner transport belongs to its creator."""

    def _as_user(self, request: ClientRequest) -> ClientRequest:
        return request._replace(headers={_HEADER: self._user, **request.headers})
