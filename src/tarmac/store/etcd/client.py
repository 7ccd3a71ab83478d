"""etcd's v3 API over gRPC, as far as the driver needs it.

Calls go to one member; when it does not answer, the next call goes to the next member. A write is one attempt:
whether to try again is up to the caller, since only it knows whether that is safe. `Lost` says that an attempt got no
answer, so that nobody knows whether it had an effect; every other error is etcd's definite answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from google.protobuf.message import DecodeError

from tarmac.base.clock import Clock
from tarmac.http.grpc import Code, GrpcConnection, GrpcError, GrpcStream, MessageTooLong
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.members import MemberConnections, Use
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.interface import Compacted, Unavailable

_Reply = TypeVar("_Reply")

FIRST_ATTEMPT_SECONDS = 1.0  # longer than an election: what the old leader lost is not waited for
MOST_ATTEMPT_SECONDS = 5.0
_READ_SECONDS = 15.0
_NO_ANSWER = {
    Code.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED,
    Code.UNKNOWN,
    Code.INTERNAL,
    Code.ABORTED,
    Code.CANCELLED,
}


class Lost(Unavailable):
    """No answer: the request may or may not have been executed."""


class AnswerTooLong(Lost):
    """There was an answer, but nobody has read it. Asking again for the same would help nobody."""


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


class EtcdClient:
    """Calls to the cluster, through whichever member answers."""

    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._current = 0
        self._members = MemberConnections(settings)
        self._token: str | None = None
        self._authenticating = asyncio.Lock()

    @property
    def member(self) -> str:
        """The member that calls go to at present."""
        return self._settings.endpoints[self._current]

    async def close(self) -> None:
        """Hang up."""
        await self._members.close()

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        """Read; tried again until some member answers. Raises AnswerTooLong, Compacted, Unavailable."""
        return await self._persistently("KV/Range", request, pb.RangeResponse.FromString)

    async def status(self) -> pb.StatusResponse:
        """About the present member. Raises Unavailable."""
        return await self._persistently("Maintenance/Status", pb.StatusRequest(), pb.StatusResponse.FromString)

    async def txn(self, request: pb.TxnRequest, timeout: float = MOST_ATTEMPT_SECONDS) -> pb.TxnResponse:
        """One attempt. Raises Lost, Unavailable."""
        return await self._call("KV/Txn", request, pb.TxnResponse.FromString, timeout)

    async def persistent_txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """One that does no harm when it is done twice; tried again until some member answers. Raises Unavailable."""
        return await self._persistently("KV/Txn", request, pb.TxnResponse.FromString)

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
        stream: WatchStream | None = None
        try:
            if self._settings.user is not None:
                # A stream cannot be told later that its token is stale.
                await self._authenticate(member, self._token)
            connection = await self._connection(member, Use.WATCHES)
            # A member that lost its leader ends the stream instead of going silent.
            metadata = (*self._metadata(), ("hasleader", "true"))
            stream = WatchStream(connection.open("etcdserverpb.Watch/Watch", metadata))
            stream.send(pb.WatchRequest(create_request=request))
            yield stream
        except GrpcError as error:
            raise self._translated(error, member) from error
        except Lost:
            self._leave(member)
            raise
        finally:
            if stream is not None:
                stream.cancel()

    async def _persistently(self, method: str, request: _Message, parse: Callable[[bytes], _Reply]) -> _Reply:
        give_up = self._clock.monotonic() + _READ_SECONDS
        pause, timeout = 0.02, FIRST_ATTEMPT_SECONDS
        while True:
            try:
                return await self._call(method, request, parse, timeout)
            except AnswerTooLong:
                raise
            except Lost:
                if self._clock.monotonic() > give_up:
                    raise
            await self._clock.sleep(pause)
            pause, timeout = min(pause * 2, 0.5), min(timeout * 2, MOST_ATTEMPT_SECONDS)

    async def _call(self, method: str, request: _Message, parse: Callable[[bytes], _Reply], timeout: float) -> _Reply:
        member = self.member
        try:
            if self._settings.user is not None and self._token is None:
                await self._authenticate(member, None)
            token = self._token
            try:
                return await self._attempt(member, method, request, parse, timeout)
            except GrpcError as error:
                if not _token_refused(error) or self._settings.user is None:
                    raise
            await self._authenticate(member, token)  # it expired, and the call was not executed
            return await self._attempt(member, method, request, parse, timeout)
        except GrpcError as error:
            raise self._translated(error, member) from error

    async def _attempt(
        self, member: str, method: str, request: _Message, parse: Callable[[bytes], _Reply], timeout: float
    ) -> _Reply:
        """Raises GrpcError."""
        connection = await self._connection(member, Use.CALLS)
        heard = connection.heard
        try:
            answer = await connection.call(
                f"etcdserverpb.{method}", request.SerializeToString(), timeout, self._metadata()
            )
        except GrpcError as error:
            if error.code == Code.DEADLINE_EXCEEDED and connection.heard == heard:
                connection.close()  # it may lead nowhere: the next call finds out by a new one
            raise
        try:
            return parse(answer)
        except DecodeError as error:
            raise GrpcError(Code.INTERNAL, f"an answer that nobody understands: {error}") from error

    async def _connection(self, member: str, use: Use) -> GrpcConnection:
        return self._members.ready(member, use) or await self._members.get(member, use)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("token", self._token),) if self._token is not None else ()

    async def _authenticate(self, member: str, stale: str | None) -> None:
        """Get another token than this one. Raises GrpcError."""
        # Checking a password is slow on purpose: one does it for all whose token expired.
        async with self._authenticating:
            if self._token is not None and self._token != stale:
                return
            self._token = None
            request = pb.AuthenticateRequest(name=self._settings.user or "", password=self._settings.password)
            parse = pb.AuthenticateResponse.FromString
            reply = await self._attempt(member, "Auth/Authenticate", request, parse, MOST_ATTEMPT_SECONDS)
            self._token = reply.token

    def _translated(self, error: GrpcError, member: str) -> Exception:
        """Our error for gRPC's; a member that did not answer is left for the next one."""
        if isinstance(error, MessageTooLong):
            return AnswerTooLong(f"etcd at {member} answered too much: {error}")
        if error.code == Code.OUT_OF_RANGE and "compacted" in str(error):
            return Compacted(0)
        if error.code in _NO_ANSWER:
            self._leave(member)
            return Lost(f"etcd at {member} did not answer: {error}")
        return Unavailable(f"etcd at {member} refused: {error}")

    def _leave(self, member: str) -> None:
        if member == self.member:  # else another call has moved on already
            self._current = (self._current + 1) % len(self._settings.endpoints)


class WatchStream:
    """One watch: what etcd says, and a way to ask how far it is."""

    def __init__(self, stream: GrpcStream) -> None:
        self._stream = stream

    def send(self, request: pb.WatchRequest) -> None:
        """Write to the server; nothing happens when the stream is over."""
        self._stream.ask(request.SerializeToString())

    def ask_progress(self) -> None:
        """Have the server say how far the stream is, once it is up to date."""
        self.send(_PROGRESS)

    def cancel(self) -> None:
        """Enough."""
        self._stream.cancel()

    async def batches(self) -> AsyncIterator[list[pb.WatchResponse]]:
        """What etcd says, from the confirmation on: all that came in one turn of the loop. Raises Compacted, Lost."""
        while messages := await self._stream.answers():
            try:
                batch = [pb.WatchResponse.FromString(message) for message in messages]
            except DecodeError as error:
                raise Lost(f"etcd says what nobody understands: {error}") from error
            ending = next((number for number, each in enumerate(batch) if each.canceled), len(batch))
            if ending:
                yield batch[:ending]
            for last in batch[ending : ending + 1]:
                if last.compact_revision:
                    raise Compacted(last.compact_revision)
                raise Lost(f"etcd ended the watch: {last.cancel_reason}")
        raise Lost("etcd ended the watch")


_PROGRESS = pb.WatchRequest(progress_request=pb.WatchProgressRequest())


def _token_refused(error: GrpcError) -> bool:
    details = str(error)
    return error.code == Code.UNAUTHENTICATED or ("auth" in details and "old" in details)
