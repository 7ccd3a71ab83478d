"""One gRPC channel to the runtime's socket: calls, deadlines, and errors in the interface's words.

The channel connects by itself, again after every loss; a call made meanwhile fails at once as `Unreachable`, and
whether to repeat it is the caller's decision. containerd answers most failures as UNKNOWN with a text, so texts decide
where codes do not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

from tarmac.runtimes.interface import NotFound, Refused, RuntimeFault, Unreachable

_Reply = TypeVar("_Reply")

_OPTIONS = [
    ("grpc.default_authority", "localhost"),  # a socket's path is no host name, and Go's servers insist on one
    ("grpc.max_receive_message_length", 32 << 20),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
_NO_ANSWER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
_STARTING = "server is not initialized yet"


class Unsupported(RuntimeFault):
    """This runtime does not know the call."""


class Message(Protocol):
    """A protobuf message."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


class CriChannel:
    """Calls of one runtime."""

    def __init__(self, endpoint: str) -> None:
        self._channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        self._methods: dict[str, Any] = {}

    async def call(
        self,
        method: str,
        request: Message,
        decode: Callable[[bytes], _Reply],
        timeout: float | None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> _Reply:
        """One attempt. Raises RuntimeFault."""
        known = self._methods.get(method)
        if known is None:
            known = self._channel.unary_unary(f"/{method}", _serialize, response_deserializer=decode)
            self._methods[method] = known
        try:
            return await known(request, timeout=timeout, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise fault(error) from error

    async def stream(self, method: str, request: Message, decode: Callable[[bytes], _Reply]) -> AsyncIterator[_Reply]:
        """What comes until the connection is lost. Raises RuntimeFault."""
        opened: Any = self._channel.unary_stream(f"/{method}", _serialize, response_deserializer=decode)
        call = opened(request)
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            raise fault(error) from error
        finally:
            call.cancel()

    async def close(self) -> None:
        """Hang up."""
        await self._channel.close(None)


def fault(error: grpc.aio.AioRpcError) -> RuntimeFault:
    """The same in the interface's words; the text stays the runtime's own."""
    code, text = error.code(), error.details() or str(error.code())
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFound(text)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Unsupported(text)
    if code in _NO_ANSWER or _STARTING in text:
        return Unreachable(text)
    return Refused(text)


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
