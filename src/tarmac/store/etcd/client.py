"""etcd's v3 API over gRPC, as far as the driver needs it.

Calls go to one member; when it does not answer, the next call goes to the next member. A write is one attempt:
whether to try again is up to the caller, since only it knows whether that is safe. `Lost` says that an attempt got no
answer, so that nobody knows whether it had an effect; every other error is etcd's definite answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.interface import Compacted, Unavailable

_log = log("store.etcd")
_Reply = TypeVar("_Reply")

FIRST_ATTEMPT_SECONDS = 1.0  # longer than an election: what the old leader lost is not waited for
MOST_ATTEMPT_SECONDS = 5.0
_READ_SECONDS = 15.0
_NO_ANSWER = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
}
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),  # etcd allows one every five seconds
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


class Lost(Unavailable):
    """No answer: the request may or may not have been executed."""


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


class EtcdClient:
    """Calls to the cluster, through whichever member answers."""

    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._current = 0
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._token: str | None = None

    @property
    def member(self) -> str:
        """The member that calls go to at present."""
        return self._settings.endpoints[self._current]

    async def close(self) -> None:
        """Hang up."""
        for channel in self._channels.values():
            await channel.close(None)
        self._channels.clear()

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        """Read; tried again until some member answers. Raises Compacted, Unavailable."""
        return await self._persistently("KV/Range", request, pb.RangeResponse.FromString)

    async def status(self) -> pb.StatusResponse:
        """About the present member. Raises Unavailable."""
        return await self._persistently("Maintenance/Status", pb.StatusRequest(), pb.StatusResponse.FromString)

    async def txn(self, request: pb.TxnRequest, timeout: float = MOST_ATTEMPT_SECONDS) -> pb.TxnResponse:
        """One attempt. Raises Lost, Unavailable."""
        return await self._call("KV/Txn", request, pb.TxnResponse.FromString, timeout)

    async def compact(self, revision: int) -> None:
        """One attempt; fine if that much is compacted already. Raises Lost, Unavailable."""
        request = pb.CompactionRequest(revision=revision)
        try:
            await self._call("KV/Compact", request, pb.CompactionResponse.FromString, MOST_ATTEMPT_SECONDS)
        except Compacted:
            return

    @asynccontextmanager
    async def watch(self, request: pb.WatchCreateRequest) -> AsyncGenerator[WatchStream]:
        """A stream of everything from `request.start_revision` on. Raises Lost, Unavailable."""
        member = self.member
        if self._settings.user is not None:
            await self._authenticate(member)  # a stream cannot be told later that its token is stale
        # A member that lost its leader ends the stream instead of going silent.
        metadata = [*self._metadata(), ("hasleader", "true")]
        method: Any = self._channel(member).stream_stream(
            "/etcdserverpb.Watch/Watch", _serialize, response_deserializer=pb.WatchResponse.FromString
        )
        call = method(metadata=metadata)
        stream = WatchStream(call)
        try:
            await stream.send(pb.WatchRequest(create_request=request))
            yield stream
        except grpc.aio.AioRpcError as error:
            raise self._translated(error, member) from error
        except Lost:
            self._leave(member)
            raise
        finally:
            call.cancel()

    async def _persistently(self, method: str, request: _Message, parse: Callable[[bytes], _Reply]) -> _Reply:
        give_up = self._clock.monotonic() + _READ_SECONDS
        pause, timeout = 0.02, FIRST_ATTEMPT_SECONDS
        while True:
            try:
                return await self._call(method, request, parse, timeout)
            except Lost:
                if self._clock.monotonic() > give_up:
                    raise
            await self._clock.sleep(pause)
            pause, timeout = min(pause * 2, 0.5), min(timeout * 2, MOST_ATTEMPT_SECONDS)

    async def _call(self, method: str, request: _Message, parse: Callable[[bytes], _Reply], timeout: float) -> _Reply:
        member = self.member
        if self._settings.user is not None and self._token is None:
            await self._authenticate(member)
        try:
            return await self._attempt(member, method, request, parse, timeout)
        except grpc.aio.AioRpcError as error:
            if not _token_refused(error) or self._settings.user is None:
                raise self._translated(error, member) from error
        await self._authenticate(member)  # the token expired, and the call was not executed
        try:
            return await self._attempt(member, method, request, parse, timeout)
        except grpc.aio.AioRpcError as error:
            raise self._translated(error, member) from error

    def _attempt(
        self, member: str, method: str, request: _Message, parse: Callable[[bytes], _Reply], timeout: float
    ) -> Awaitable[_Reply]:
        call: Any = self._channel(member).unary_unary(f"/etcdserverpb.{method}", _serialize, parse)
        return call(request, timeout=timeout, metadata=self._metadata())

    def _metadata(self) -> list[tuple[str, str]]:
        return [("token", self._token)] if self._token is not None else []

    async def _authenticate(self, member: str) -> None:
        self._token = None
        request = pb.AuthenticateRequest(name=self._settings.user or "", password=self._settings.password)
        parse = pb.AuthenticateResponse.FromString
        try:
            reply = await self._attempt(member, "Auth/Authenticate", request, parse, MOST_ATTEMPT_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise self._translated(error, member) from error
        self._token = reply.token

    def _translated(self, error: grpc.aio.AioRpcError, member: str) -> Exception:
        """Our error for gRPC's; a member that did not answer is left for the next one."""
        details = error.details() or error.code().name
        if error.code() is grpc.StatusCode.OUT_OF_RANGE and "compacted" in details:
            return Compacted(0)
        if error.code() in _NO_ANSWER:
            self._leave(member)
            return Lost(f"etcd at {member} did not answer: {details}")
        return Unavailable(f"etcd at {member} refused: {details}")

    def _leave(self, member: str) -> None:
        if member == self.member:  # else another call has moved on already
            self._current = (self._current + 1) % len(self._settings.endpoints)

    def _channel(self, member: str) -> grpc.aio.Channel:
        channel = self._channels.get(member)
        if channel is None:
            channel = self._channels[member] = self._connect(member)
        return channel

    def _connect(self, member: str) -> grpc.aio.Channel:
        settings = self._settings
        if settings.cacert is None:
            return grpc.aio.insecure_channel(member, options=_CHANNEL_OPTIONS)
        credentials = grpc.ssl_channel_credentials(settings.cacert, settings.key, settings.cert)
        return grpc.aio.secure_channel(member, credentials, options=_CHANNEL_OPTIONS)


class WatchStream:
    """One watch: an iterator of responses, and a way to ask how far it is."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._turn = asyncio.Lock()  # gRPC takes one write at a time

    async def send(self, request: pb.WatchRequest) -> None:
        """Write to the server."""
        async with self._turn:
            await self._call.write(request)

    async def ask_progress(self) -> None:
        """Have the server say how far the stream is, once it is up to date."""
        await self.send(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))

    async def responses(self) -> AsyncIterator[pb.WatchResponse]:
        """What etcd says, from the confirmation on. Raises Compacted, Lost."""
        end = grpc.aio.EOF  # pyright: ignore[reportAttributeAccessIssue] - missing in the stubs
        while (response := await self._call.read()) is not end:
            if response.canceled:
                if response.compact_revision:
                    raise Compacted(response.compact_revision)
                raise Lost(f"etcd ended the watch: {response.cancel_reason}")
            yield response
        raise Lost("etcd ended the watch")


def _serialize(message: _Message) -> bytes:
    return message.SerializeToString()


def _token_refused(error: grpc.aio.AioRpcError) -> bool:
    details = error.details() or ""
    return error.code() is grpc.StatusCode.UNAUTHENTICATED or ("auth" in details and "old" in details)
