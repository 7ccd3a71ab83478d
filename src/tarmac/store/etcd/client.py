"""The part of etcd's v3 API over gRPC that the driver needs.

Calls go to one member; when it does not respond, the next call goes to the next member. A write is one attempt: only
the caller knows whether a retry is safe. `Lost` means that an attempt got no response, so that its effect is unknown;
every other error is etcd's definite response.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from google.protobuf.message import DecodeError

from tarmac.base.clock import Clock
from tarmac.http.grpc import Code, GrpcConnection, GrpcError, GrpcStream, MessageTooLong
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.memberconnections import ConnectionUse, MemberConnections
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.interface import Compacted, Unavailable

_Reply = TypeVar("_Reply")

FIRST_ATTEMPT_TIMEOUT = 1.0  # longer than an election: requests that the old leader lost are not waited for
MAX_ATTEMPT_TIMEOUT = 5.0
_READ_TIMEOUT = 15.0
_NO_ANSWER = {
    Code.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED,
    Code.UNKNOWN,
    Code.INTERNAL,
    Code.ABORTED,
    Code.CANCELLED,
}


class Lost(Unavailable):
    """No response: the request may or may not have been executed."""


class AnswerTooLong(Lost):
    """The response exceeded the size limit and was not read. Retrying the same request does not help."""


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


class EtcdClient:
    """Calls to the cluster, through any member that responds."""

    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._endpoints = settings.endpoints
        self._current = 0
        self._members = MemberConnections(settings)
        self._token: str | None = None
        self._authenticating = asyncio.Lock()

    @property
    def member(self) -> str:
        """The member that receives calls at present."""
        return self._endpoints[self._current]

    def use(self, endpoints: Sequence[str]) -> None:
        """Send later calls to these members, the present one first if it is among them."""
        present = self.member
        self._endpoints = tuple(endpoints)
        self._current = self._endpoints.index(present) if present in self._endpoints else 0

    async def close(self) -> None:
        """Close the connections."""
        await self._members.close()

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        """Read; retried until a member responds. Raises AnswerTooLong, Compacted, Unavailable."""
        return await self._call_with_retry("KV/Range", request, pb.RangeResponse.FromString)

    async def status(self) -> pb.StatusResponse:
        """Return the status of the present member. Raises Unavailable."""
        return await self._call_with_retry("Maintenance/Status", pb.StatusRequest(), pb.StatusResponse.FromString)

    async def txn(self, request: pb.TxnRequest, timeout: float = MAX_ATTEMPT_TIMEOUT) -> pb.TxnResponse:
        """One attempt. Raises Lost, Unavailable."""
        return await self._call("KV/Txn", request, pb.TxnResponse.FromString, timeout)

    async def persistent_txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """Run an idempotent transaction; retried until a member responds. Raises Unavailable."""
        return await self._call_with_retry("KV/Txn", request, pb.TxnResponse.FromString)

    async def compact(self, revision: int) -> None:
        """Compact in one attempt; succeeds if that revision is compacted already. Raises Lost, Unavailable."""
        request = pb.CompactionRequest(revision=revision)
        try:
            await self._call("KV/Compact", request, pb.CompactionResponse.FromString, MAX_ATTEMPT_TIMEOUT)
        except Compacted:
            return

    async def members(self, *, current: bool = False) -> list[pb.Member]:
        """Return the members as the present one knows them, without a quorum, too; or the `current` ones, with one.

        Raises Unavailable.
        """
        request, parse = pb.MemberListRequest(linearizable=current), pb.MemberListResponse.FromString
        return list((await self._call_with_retry("Cluster/MemberList", request, parse)).members)

    async def add_learner(self, peer_url: str) -> None:
        """Add a member without a vote in one attempt. Raises Lost, Unavailable."""
        request = pb.MemberAddRequest(peer_urls=[peer_url], is_learner=True)
        await self._call("Cluster/MemberAdd", request, pb.MemberAddResponse.FromString, MAX_ATTEMPT_TIMEOUT)

    async def promote(self, member: int) -> None:
        """Give a learner its vote in one attempt. Raises Lost, and Unavailable while it lacks entries."""
        request = pb.MemberPromoteRequest(id=member)
        await self._call("Cluster/MemberPromote", request, pb.MemberPromoteResponse.FromString, MAX_ATTEMPT_TIMEOUT)

    async def remove(self, member: int) -> None:
        """Remove a member in one attempt. Raises Lost, Unavailable."""
        request = pb.MemberRemoveRequest(id=member)
        await self._call("Cluster/MemberRemove", request, pb.MemberRemoveResponse.FromString, MAX_ATTEMPT_TIMEOUT)

    async def responds(self, endpoint: str) -> bool:
        """Return True if this member responds. It does without a quorum, too."""
        parse = pb.StatusResponse.FromString
        try:
            # Longer than a read's first attempt: a member on a busy host is slow, not lost.
            await self._attempt(endpoint, "Maintenance/Status", pb.StatusRequest(), parse, MAX_ATTEMPT_TIMEOUT)
        except GrpcError:
            return False
        return True

    @asynccontextmanager
    async def watch(self, request: pb.WatchCreateRequest) -> AsyncGenerator[WatchStream]:
        """Open a stream of everything from `request.start_revision` on. Raises Lost, Unavailable."""
        member = self.member
        stream: WatchStream | None = None
        try:
            if self._settings.user is not None:
                # A stream cannot get a new token later.
                await self._authenticate(member, self._token)
            connection = await self._connection(member, ConnectionUse.WATCHES)
            # A member that lost its leader then ends the stream instead of going silent.
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

    async def _call_with_retry(self, method: str, request: _Message, parse: Callable[[bytes], _Reply]) -> _Reply:
        give_up = self._clock.monotonic() + _READ_TIMEOUT
        pause, timeout = 0.02, FIRST_ATTEMPT_TIMEOUT
        while True:
            try:
                return await self._call(method, request, parse, timeout)
            except AnswerTooLong:
                raise
            except Lost:
                if self._clock.monotonic() > give_up:
                    raise
            await self._clock.sleep(pause)
            pause, timeout = min(pause * 2, 0.5), min(timeout * 2, MAX_ATTEMPT_TIMEOUT)

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
        """Make one call. Raises GrpcError."""
        connection = await self._connection(member, ConnectionUse.CALLS)
        heard = connection.heard
        try:
            answer = await connection.call(
                f"etcdserverpb.{method}", request.SerializeToString(), timeout, self._metadata()
            )
        except GrpcError as error:
            if error.code == Code.DEADLINE_EXCEEDED and connection.heard == heard:
                connection.close()  # it may be dead: the next call opens a new one
            raise
        try:
            return parse(answer)
        except DecodeError as error:
            raise GrpcError(Code.INTERNAL, f"malformed response: {error}") from error

    async def _connection(self, member: str, use: ConnectionUse) -> GrpcConnection:
        return self._members.ready(member, use) or await self._members.get(member, use)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("token", self._token),) if self._token is not None else ()

    async def _authenticate(self, member: str, stale: str | None) -> None:
        """Get a token other than `stale`. Raises GrpcError."""
        # Checking a password is slow on purpose: one caller does it for all callers with an expired token.
        async with self._authenticating:
            if self._token is not None and self._token != stale:
                return
            self._token = None
            request = pb.AuthenticateRequest(name=self._settings.user or "", password=self._settings.password)
            parse = pb.AuthenticateResponse.FromString
            reply = await self._attempt(member, "Auth/Authenticate", request, parse, MAX_ATTEMPT_TIMEOUT)
            self._token = reply.token

    def _translated(self, error: GrpcError, member: str) -> Exception:
        """Convert gRPC's error to the store's; after a missing response, later calls go to the next member."""
        if isinstance(error, MessageTooLong):
            return AnswerTooLong(f"etcd at {member} answered too much: {error}")
        if error.code == Code.OUT_OF_RANGE and "compacted" in str(error):
            return Compacted(0)
        if error.code in _NO_ANSWER:
            self._leave(member)
            return Lost(f"etcd at {member} did not answer: {error}")
        return Unavailable(f"etcd at {member} refused: {error}")

    def _leave(self, member: str) -> None:
        if member == self.member:  # else a concurrent call has switched already
            self._current = (self._current + 1) % len(self._endpoints)


class WatchStream:
    """One watch: etcd's responses, and progress requests."""

    def __init__(self, stream: GrpcStream) -> None:
        self._stream = stream

    def send(self, request: pb.WatchRequest) -> None:
        """Write to the server; ignored when the stream has ended."""
        self._stream.ask(request.SerializeToString())

    def ask_progress(self) -> None:
        """Request a progress report, sent once the stream is up to date."""
        self.send(_PROGRESS)

    def cancel(self) -> None:
        """End the stream."""
        self._stream.cancel()

    async def batches(self) -> AsyncIterator[list[pb.WatchResponse]]:
        """Yield etcd's responses, grouped by loop iteration, from the confirmation on. Raises Compacted, Lost."""
        while messages := await self._stream.answers():
            try:
                batch = [pb.WatchResponse.FromString(message) for message in messages]
            except DecodeError as error:
                raise Lost(f"malformed watch response from etcd: {error}") from error
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
