"""Calls to the runtime's socket, with errors mapped to those of the interface.

There is one connection, opened on demand and again after every loss. A call fails with `RuntimeUnreachable` meanwhile;
the caller decides on a retry. containerd returns most failures as UNKNOWN with a text, so texts are examined where
codes do not suffice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Protocol, TypeVar

from tarmac.http.grpc import Code, GrpcConnection, GrpcError, Metadata
from tarmac.runtimes.interface import RuntimeFault, RuntimeObjectNotFound, RuntimeRefused, RuntimeUnreachable

_Reply = TypeVar("_Reply")

_AUTHORITY = "localhost"  # a socket's path is no host name, and Go's servers require one
_NO_ANSWER = {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED}
_STARTING = "server is not initialized yet"


class Unsupported(RuntimeFault):
    """The runtime does not implement the call."""


class EncodableMessage(Protocol):
    """A protobuf message."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


class CriChannel:
    """The connection to one runtime; `endpoint` is `unix://` and a path."""

    def __init__(self, endpoint: str) -> None:
        self._path = endpoint.removeprefix("unix://")
        self._connection: GrpcConnection | None = None
        self._connecting = asyncio.Lock()

    async def call(
        self,
        method: str,
        request: EncodableMessage,
        decode: Callable[[bytes], _Reply],
        timeout: float | None,
        metadata: Metadata = (),
        longest: int | None = None,
    ) -> _Reply:
        """Call once, without a retry. Raises RuntimeFault."""
        connection = await self._connected()
        try:
            return decode(await connection.call(method, request.SerializeToString(), timeout, metadata, longest))
        except GrpcError as error:
            raise fault(error) from error

    async def stream(
        self, method: str, request: EncodableMessage, decode: Callable[[bytes], _Reply]
    ) -> AsyncGenerator[_Reply]:
        """Yield messages until the connection is lost. Raises RuntimeFault."""
        connection = await self._connected()
        try:
            async with aclosing(connection.stream(method, request.SerializeToString())) as messages:
                async for message in messages:
                    yield decode(message)
        except GrpcError as error:
            raise fault(error) from error

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    async def _connected(self) -> GrpcConnection:
        async with self._connecting:
            if self._connection is None or not self._connection.usable:
                loop = asyncio.get_running_loop()
                try:
                    made = await loop.create_unix_connection(lambda: GrpcConnection(_AUTHORITY), self._path)
                except OSError as error:
                    raise RuntimeUnreachable(f"{self._path}: {error.strerror or error}") from error
                self._connection = made[1]
            return self._connection


def fault(error: GrpcError) -> RuntimeFault:
    """Map a gRPC error to the interface's; the text stays the runtime's own."""
    text = str(error)
    if error.code == Code.NOT_FOUND:
        return RuntimeObjectNotFound(text)
    if error.code == Code.UNIMPLEMENTED:
        return Unsupported(text)
    if error.code in _NO_ANSWER or _STARTING in text:
        return RuntimeUnreachable(text)
    return RuntimeRefused(text)
