"""Access to repositories for tests without a server: pulls from the platform's own registry cannot be authorized."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tarmac.agent.containers.repositories import RepositoryAccess
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.transport import ClientRequest, Reply, StreamReply
from tarmac.volumes.fake import FakeSources


class Nowhere:
    """A transport without a server."""

    async def request(self, request: ClientRequest) -> Reply:
        raise Disconnected("there is no server")

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncGenerator[StreamReply]:
        raise Disconnected("there is no server")
        yield

    def shared(self, group: str, plural: str, key: str, raw: bytes) -> bytes:
        return raw

    async def close(self) -> None:
        return None


def no_registry() -> RepositoryAccess:
    """Return access for images of other registries."""
    return RepositoryAccess(Client(Nowhere()), FakeSources())
